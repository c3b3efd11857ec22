// An object that makes a system call by itself.
long object_close(int fd) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "0"(3L), "D"((long)fd) : "rcx", "r11", "memory");
  return result;
}
