set -e
for i in $(seq 20); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
echo 'int f7(int); int main(void) { return f7(35) - 42; }' > m.c; cc -c *.c; ar rcs l.a f*.o; cc -o m m.o l.a; ./m && echo right; rm m *.o l.a
