set -e
mkdir s; for i in $(seq 30); do seq $i $((i * 500)) > s/$i; done; rsync -a s/ t
for i in 3 9 27; do echo changed >> s/$i; sed -i '5s/.*/x/' s/$i; done; rsync -a --inplace --no-whole-file -I s/ t
diff -r s t && echo equal
