# test_batches.awk FILES...: puts files that are compiled as one into batches of at most `most`, such that no two of a
# batch give one name to a constant, a function or a type of their own. Prints the number of each file's batch, in order.
# A definition begins at the start of a line and is no macro's (TEST_CASE).
function take(name) {
  if (name != "" && !((FILENAME, name) in has)) { has[FILENAME, name] = 1; names[FILENAME] = names[FILENAME] " " name }
}
FNR == 1 { file[++files] = FILENAME }
/^(using|namespace|template|#|\/\/)/ { next }
/^(struct|class|union|enum) / {
  name = $2 == "class" || $2 == "struct" ? $3 : $2
  sub(/[^A-Za-z0-9_].*/, "", name)
  take(name)
  next
}
/^[a-z_][^()]*[ &*][A-Za-z0-9_]+\(/ || /^[A-Z][A-Za-z0-9_:<>, ]*[ &*]+[a-z_][A-Za-z0-9_]*\(/ {
  name = $0
  sub(/\(.*/, "", name)
  sub(/.*[^A-Za-z0-9_]/, "", name)
  take(name)
  next
}
/^(constexpr|const|static|inline|std::|[A-Z][A-Za-z]*|double|int|bool) ?.*[ &*][A-Za-z0-9_]+( =|[[{;]|$)/ {
  name = $0
  sub(/ *(=|[[{;]).*/, "", name)
  sub(/.*[^A-Za-z0-9_]/, "", name)
  take(name)
}
END {
  for (f = 1; f <= files; ++f) {
    count = split(names[file[f]], own, " ")
    for (batch = 0;; ++batch) {
      free = size[batch] < most
      for (n = 1; n <= count && free; ++n) free = !((batch, own[n]) in held)
      if (free) break
    }
    ++size[batch]
    for (n = 1; n <= count; ++n) held[batch, own[n]] = 1
    print batch
  }
}
