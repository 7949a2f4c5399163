set -e
seq 1000 | sort -r | grep 7 | wc -l
mkfifo pipe
for word in one two three; do echo $word; done >pipe &
while read -r word; do echo "<$word>"; done <pipe
wait
cat <<TEXT | sed 's/a/the/' | tee copy
a here-document
TEXT
find . -name copy | xargs wc -c
