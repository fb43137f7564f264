# A root folder with nothing but some packages of this machine, for tests that source it. Nothing is loaded from a network.
# REQUIRES: $folder of check.sh. SETS: $root, and $enter, the command that goes there.
root=$folder/root
enter="unshare --fork --pid --mount chroot $root"
[ "$(id -u)" -eq 0 ] || enter="unshare -r ${enter#unshare }"

mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,usr/sbin,etc,tmp,proc,dev,var/lib/dpkg/info,var/lib/dpkg/updates}
for link in bin lib lib64 sbin; do ln -s "usr/$link" "$root/$link"; done  # as Debian has them
: >"$root/dev/null"

# closure PACKAGE...: these and all that they depend on, as installed here. "a | b": the first that is.
closure() {
  dpkg-query -W -f '${db:Status-Status}\t${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\n' |
    awk -F '\t' -v wanted="$*" '
      function names(text) { gsub(/\([^)]*\)|\[[^]]*\]|:[a-z0-9]+/, "", text); gsub(/[ \t]+/, "", text); return text }
      $1 == "installed" {
        needs[$2] = names($3)
        count = split(names($4), virtual, ","); for (i = 1; i <= count; i++) if (!(virtual[i] in gives)) gives[virtual[i]] = $2
      }
      function visit(name,   all, some, count, choices, i, j, chosen) {
        if (name == "" || name in seen) return
        seen[name] = 1
        print name
        count = split(needs[name], all, ",")
        for (i = 1; i <= count; i++) {
          if (all[i] == "") continue
          choices = split(all[i], some, "|"); chosen = ""
          for (j = 1; j <= choices && chosen == ""; j++)
            chosen = some[j] in needs ? some[j] : gives[some[j]]
          if (chosen == "") { print "missing " all[i] " of " name > "/dev/stderr"; continue }
          visit(chosen)
        }
      }
      END { count = split(wanted, first, " "); for (k = 1; k <= count; k++) visit(first[k]) }'
}

# fill PACKAGE...: the files of those that it lacks, and what dpkg has to know of them, into the root.
fill() {
  local name missing=()
  for name in "$@"; do
    grep -qsx "Package: $name" "$root/var/lib/dpkg/status" || missing+=("$name")
  done
  dpkg-query -L "${missing[@]}" 2>/dev/null | grep -vE '^/usr/share/(doc|man|locale|info|i18n|perl|icu)/' | sort -u |
    while read -r file; do [ -d "$file" ] && [ ! -L "$file" ] || echo "$file"; done |
    tar --create --file - --no-recursion --absolute-names --ignore-failed-read --files-from - 2>/dev/null |
    tar --extract --file - --directory "$root" 2>/dev/null
  dpkg-query -s "${missing[@]}" >>"$root/var/lib/dpkg/status" 2>/dev/null
}
