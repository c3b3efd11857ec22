set -e
mkdir d; for i in $(seq 60); do seq $i $((i * 300)) > d/$i; done; tar cf d.tar d
mkdir e; tar xf d.tar -C e; diff -r d e/d && echo equal; gzip -k d.tar; gzip -t d.tar.gz; xz -k -0 d.tar
zcat d.tar.gz | cmp - d.tar && xzcat d.tar.xz | cmp - d.tar && echo same; tar tf d.tar | wc -l; rm d.tar.gz d.tar.xz d.tar
