set -e
cat > P.java << 'end'
import java.io.*; import java.nio.*; import java.nio.channels.*;
class P { public static void main(String[] a) throws Exception {
  try (RandomAccessFile f = new RandomAccessFile("f", "rw")) {
    f.write(new byte[100000]); byte[] b = new byte[300];
    for (int i = 0; i < 500; i++) { f.seek(i * 190L); f.write(new byte[] {(byte) i, 1, 2}); f.seek(i * 100L); f.readFully(b); }
    FileChannel c = f.getChannel(); ByteBuffer d = ByteBuffer.allocateDirect(4096); long s = 0;
    for (int i = 0; i < 200; i++) { d.clear(); c.read(d, i * 400L); d.flip(); while (d.hasRemaining()) s += d.get(); c.write(ByteBuffer.wrap(new byte[] {5}), i * 450L); }
    MappedByteBuffer m = c.map(FileChannel.MapMode.READ_WRITE, 0, 100000); for (int i = 0; i < 100000; i++) s += m.get(i); m.put(9, (byte) 9);
    System.out.println(s); } } }
end
java P.java
