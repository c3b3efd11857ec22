set -e
perl -e 'open F, "+>", "f"; print F "x" x 200000; close F; open F, "+<", "f";
for (1..500) { sysseek F, ($_ * 397) % 190000, 0; syswrite F, "y$_"; sysseek F, ($_ * 91) % 190000, 0; sysread F, $b, 100; $s += length $b; }
seek F, 0, 0; $n++ while <F>; print "$s $n\n"'
