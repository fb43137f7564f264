# What the end-to-end tests share; they source it. REQUIRES: $program, the working folder is the root.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

# run EXPECTED_STATUS ARGUMENTS...: fills $folder/out and $folder/err.
run() {
  expected=$1
  shift
  status=0
  "$program" "$@" >"$folder/out" 2>"$folder/err" </dev/null || status=$?
  [ "$status" -eq "$expected" ] && return
  echo "FAILED: stepcast $*: exit code $status instead of $expected"
  sed 's/^/  | /' "$folder/err" | head -n 20
  failures=$((failures + 1))
}

# shows FILE TEXT: FILE (out or err) has the fixed TEXT.
shows() {
  grep -qF -- "$2" "$folder/$1" && return
  echo "FAILED: $1 lacks: $2"
  head -n 20 "$folder/$1" | sed 's/^/  | /'
  failures=$((failures + 1))
}

lacks() {
  grep -qF -- "$2" "$folder/$1" || return 0
  echo "FAILED: $1 has: $2"
  failures=$((failures + 1))
}

holds() {  # holds COMMAND...: it succeeds
  "$@" && return
  echo "FAILED: $*"
  failures=$((failures + 1))
}
