#!/bin/bash
# Measures PyTorch's kernels, tests, calibrates and validates on a machine with one GPU, and runs
# PyTorch beside it, in five calls of at most 6 minutes, the most important first. Each part's output lands in the output folder as it comes,
# and behind every part all of the folder goes into FOLDER.tar.gz: a run that is cut short has what
# it had. README.md says what is in there.
#
#   validation/real/gpu.sh [--call 1|2|3|4|5] [-o FOLDER] [--programs FOLDER] [--old FOLDER]
#                          [--backend cuda|host] [--short] [--dry-run]
#
# --call: one of the five; default all. Give them the same folder (-o).
# --programs: where stepcast and the GPU tests lie; default the tree itself, where it is a travelling
#   build (tools/make-travelling-build), else build/travel, build/release. Nothing is built here.
# --old: programs of an earlier build, measured again beside these (call 3).
# --backend host: the same parts on a machine without a GPU, with the suites host-2 and demo-4.
# --short: a few seconds of each (for the test of this script).
# --dry-run: the parts with their limits, and the sum of each call.
set -u
cd "$(dirname "$0")/../.." || exit
here=validation/real
out=$here/results/$(date -u +%Y-%m-%d)
calls='1 2 3 4 5'
programs=
old=
backend=cuda
short=
dry=
while [ $# -gt 0 ]; do
  case $1 in
    -o | --call | --programs | --old | --backend)
      [ $# -gt 1 ] || { echo "gpu.sh: $1 needs a value" >&2; exit 2; } ;;&
    -o) out=$2; shift ;;
    --call) calls=$2; shift ;;
    --programs) programs=$2; shift ;;
    --old) old=$2; shift ;;
    --backend) backend=$2; shift ;;
    --short) short=1 ;;
    --dry-run) dry=1 ;;
    *) echo "gpu.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done
case $out in /*) ;; *) out=$PWD/$out ;; esac
case $backend in cuda | host) ;; *) echo "gpu.sh: --backend is cuda or host" >&2; exit 2 ;; esac
case $calls in [1-5] | '1 2 3 4 5') ;; *) echo "gpu.sh: --call is 1, 2, 3, 4 or 5" >&2; exit 2 ;; esac
if [ -z "$programs" ]; then
  for programs in . build/travel build/release; do [ -x $programs/stepcast ] && break; done
fi
stepcast=$programs/stepcast
if [ -z "$dry" ] && [ ! -x "$stepcast" ]; then
  echo "gpu.sh: there is no $stepcast: make it with tools/make-travelling-build, or name its folder" \
    "with --programs" >&2
  exit 1
fi
# A test of the GPU: beside stepcast, or where CMake leaves it. Usage: program_of FOLDER NAME
program_of() {
  local candidate
  for candidate in "$1/$2" "$1"/tests/unit/*/"$2"; do
    [ -x "$candidate" ] && echo "$candidate" && return
  done
  echo "$1/$2"
}
gpu_kernels=$(program_of "$programs" gpu_kernels)
cuda_vs_host=$(program_of "$programs" cuda_vs_host)
if [ "$backend" = host ]; then main_suite=host-2 shared_suites='demo-4 demo-4' features_suite=host-features
else main_suite=gpu-1 shared_suites='gpu-virtual-4 gpu-virtual-8' features_suite=gpu-features; fi

failures=0
child=  # the part that runs
call=
call_started=0
call_limit=0
call_budget=0
clock_log=

# All that there is, in one file; the last complete one stays until the next is.
keep() {
  tar -czf "$out.tar.gz.part" -C "$(dirname "$out")" "$(basename "$out")" 2>/dev/null
  mv -f "$out.tar.gz.part" "$out.tar.gz"
}

# Whatever ends this script: the results are kept.
# shellcheck disable=SC2317
finish() {
  [ -n "$dry" ] && return
  [ -n "$child" ] && kill -INT "$child" 2>/dev/null && wait "$child" 2>/dev/null
  [ -n "$clock_log" ] && kill "$clock_log" 2>/dev/null
  clock_log=
  write_table
  keep
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# limited SECONDS LOG COMMAND...: INT first, so that the program ends its ranks and keeps what it has.
# In the background, so that a signal to this script is not left waiting.
limited() {
  local seconds=$1 log=$2 status=0
  shift 2
  timeout --signal=INT --kill-after=5 "$seconds" "$@" >"$log" 2>&1 </dev/null &
  child=$!
  { wait "$child" || status=$?; } 2>/dev/null  # "Killed", where it had to be
  child=
  return "$status"
}

# note_part NAME STATUS BEGIN: a line in parts.csv and on the terminal.
note_part() {
  local seconds=$(($(date +%s) - $3))
  printf '%s,%s,%s,%s,%s\n' "$call" "$1" "$2" "$3" "$seconds" >>"$out/parts.csv"
  printf 'call %s  %-24s %-9s %4d s (%d s since its start)\n' "$call" "$1" "$2" "$seconds" \
    "$(($(date +%s) - call_started))"
}

# leave_out NAME REASON
leave_out() {
  if [ -n "$dry" ]; then
    printf 'call %s  %-24s left out: %s\n' "$call" "$1" "$2"
    return
  fi
  echo "left out: $2" >"$out/$1.log"
  note_part "$1" left_out "$(date +%s)"
}

# part NAME SECONDS COMMAND...: runs it within its limit and what is left of the call, output into
# NAME.log; returns its status. A failure is run again with what explains it, in NAME.again.log.
part() {
  local name=$1 seconds=$2 status=0 begin left
  shift 2
  # A part that runs into its limit has 5 s to write what it has.
  call_budget=$((call_budget + seconds + 5))
  if [ -n "$dry" ]; then
    local command="$*"
    printf 'call %s  %-24s %3d s: %s\n' "$call" "$name" "$seconds" "${command//$out/OUT}"
    return 0
  fi
  begin=$(date +%s)
  left=$((call_started + call_limit - begin - 10))
  if [ "$left" -lt 5 ]; then
    leave_out "$name" "the time of the call is up"
    failures=$((failures + 1))
    return 1
  fi
  [ "$left" -lt "$seconds" ] && seconds=$left
  limited "$seconds" "$out/$name.log" "$@" || status=$?
  note_part "$name" "$status" "$begin"
  # 5: a bound of the suite is exceeded, which is a result.
  case $status in 0 | 5) keep; return 0 ;; esac
  # So is a machine that was too noisy for a verdict.
  if grep -q 'no verdict: machine too noisy' "$out/$name.log"; then keep; return 0; fi
  failures=$((failures + 1))
  tail -n 4 "$out/$name.log" | sed 's/^/    /'
  # What ran out of time says nothing more the second time.
  case $status in 124 | 130 | 137) ;; *) explain "$name" "$@" ;; esac
  keep
  return "$status"
}

# explain NAME COMMAND...: each kernel waited for, and the libraries' logs.
explain() {
  local name=$1 begin seconds status=0
  shift
  begin=$(date +%s)
  seconds=$((call_started + call_limit - begin - 20))
  [ "$seconds" -gt 30 ] && seconds=30
  [ "$backend" = host ] && [ "$seconds" -gt 10 ] && seconds=10
  [ "$seconds" -ge 5 ] || return 0
  mkdir -p "$out/again"
  limited "$seconds" "$out/$name.again.log" env CUDA_LAUNCH_BLOCKING=1 CUBLASLT_LOG_LEVEL=5 \
    CUBLASLT_LOG_FILE="$out/again/$name.cublaslt.%i.log" NCCL_DEBUG=INFO \
    NCCL_DEBUG_FILE="$out/again/$name.nccl.%h.%p.log" "$@" || status=$?
  note_part "$name.again" "$status" "$begin"
}

# of_gpu NAME SECONDS COMMAND...: a part that only a GPU has.
of_gpu() {
  if [ "$backend" = host ]; then leave_out "$1" "it needs a GPU"; return 0; fi
  part "$@"
}
# of_tool TOOL NAME SECONDS COMMAND...: a part of a program that need not be there.
of_tool() {
  local tool=$1
  shift
  if [ "$backend" = host ]; then leave_out "$1" "it needs a GPU"; return 0; fi
  if [ -z "$dry" ] && ! command -v "$tool" >/dev/null; then
    leave_out "$1" "there is no $tool on PATH"
    return 0
  fi
  part "$@"
}

# begin_call NUMBER SECONDS
begin_call() {
  call=$1 call_limit=$2 call_started=$(date +%s) call_budget=0
  [ -n "$dry" ] && return
  if [ "$backend" = cuda ] && command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=timestamp,clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active \
      --format=csv -lms 200 >"$out/clocks-$call.csv" 2>&1 </dev/null &
    clock_log=$!
  else
    (while cat /proc/loadavg; do sleep 1; done) >"$out/clocks-$call.csv" 2>/dev/null </dev/null &
    clock_log=$!
  fi
}
end_call() {
  if [ -n "$dry" ]; then
    echo "call $call: at most $call_budget s in parts, limit $call_limit s"
    return
  fi
  [ -n "$clock_log" ] && kill "$clock_log" 2>/dev/null && wait "$clock_log" 2>/dev/null
  clock_log=
  write_table
  keep
  echo "call $call: $(($(date +%s) - call_started)) s; results: $out.tar.gz"
}

# In a shell of its own, under timeout: what runs here, and what it finds.
# shellcheck disable=SC2317
facts() {
  date -u +%Y-%m-%dT%H:%M:%SZ
  uname -srm
  grep -m1 'model name' /proc/cpuinfo
  nproc
  cat travel.txt 2>/dev/null || git rev-parse HEAD 2>/dev/null
  echo "== stepcast doctor"
  "$stepcast" doctor
  echo "== ldd"
  ldd "$stepcast" "$gpu_kernels" "$cuda_vs_host"
  echo "== Multi-Process Service, tools"
  ls -l /usr/bin/nvidia-cuda-mps-control /usr/local/nvidia/bin/nvidia-cuda-mps-control
  command -v nvcc compute-sanitizer ncu nsys python3
  echo "== PyTorch"
  python3 -c 'import torch; print(torch.__version__, torch.version.cuda,
torch.backends.cudnn.version(), torch.cuda.nccl.version())'
  echo "== nvidia-smi"
  nvidia-smi -q
  nvidia-smi topo -m
  echo "== nccl.h"
  timeout 5 find / -xdev -name nccl.h 2>/dev/null | head -n 3
  return 0
}

# train NAME SECONDS SCENARIO STEPS OPTIONS...: one run of the engine, as CSV with a record and a trace.
train() {
  local name=$1 seconds=$2 scenario=$3 steps=$4
  shift 4
  part "$name" "$seconds" "$stepcast" run "$scenario" --backend "$backend" --steps "$steps" -o csv \
    --record "$out/$name.json" --trace "$out/$name.trace.json" "$@"
}

# measure SUITE SECONDS: calibrated files into $out/SUITE; nominal ones of this GPU until then.
measure() {
  mkdir -p "$out/$1" "$out/nccl"
  if [ "$backend" = cuda ]; then
    part "nominal-$1" 5 "$stepcast" calibrate --suite "$1" --nominal -o "$out/$1"
  fi
  local limit=$(($2 * 2 + 5))
  [ "$backend" = host ] && limit=$(($2 * 3 + 20))
  part "calibrate-$1" "$limit" env NCCL_DEBUG=INFO \
    "NCCL_DEBUG_FILE=$out/nccl/calibrate-$1.%h.%p.log" \
    "NCCL_TOPO_DUMP_FILE=$out/nccl/topology-$1.xml" \
    "$stepcast" calibrate --suite "$1" --seconds "$2" -o "$out/$1"
}

# validate NAME SUITE SECONDS OPTIONS...: results into $out/NAME.csv and NAME.md, forecast by the files
# of `calibrated`, which is a suite; default: by its own.
calibrated=
validate() {
  local name=$1 suite=$2 seconds=$3 from=$out/${calibrated:-$2}/cluster.yaml cluster=()
  shift 3
  { [ -n "$dry" ] || [ -f "$from" ]; } && cluster=(--cluster "$from")
  part "validate-$name" "$seconds" env NCCL_DEBUG=INFO \
    "NCCL_DEBUG_FILE=$out/nccl/validate-$name.%h.%p.log" \
    "$stepcast" validate real "$suite" "${cluster[@]}" --records "$out/$suite/records-$name" \
    --results "$out/$name.csv" -o md "$@"
  [ -n "$dry" ] || cp "$out/validate-$name.log" "$out/$name.md"
}

# pytorch NAME SECONDS OPTIONS...
pytorch() {
  local name=$1 seconds=$2
  shift 2
  if ! command -v python3 >/dev/null; then leave_out "$name" "there is no python3 on PATH"; return; fi
  [ "$backend" = cuda ] || set -- --dry-run
  part "$name" "$seconds" env "${cudnn_log[@]}" python3 $here/pytorch_baseline.py \
    -o "$out/$name.csv" "$@"
}

# torch_kernels NAME SECONDS: rows of PyTorch's kernels with their forecasts, then a device file that
# is fitted to them. What the tables hold already is not measured again.
torch_kernels() {
  local name=$1 seconds=$2 how=(--stepcast "$stepcast" --limit $(($2 - 15)))
  if ! command -v python3 >/dev/null; then leave_out "$name" "there is no python3 on PATH"; return; fi
  [ "$backend" = cuda ] || how=(--dry-run)
  part "$name" "$seconds" python3 $here/torch_kernels.py -o "$out" "${how[@]}"
  of_gpu "$name-fit" 15 "$stepcast" calibrate --from-kernels "$out/torch-kernels.csv" \
    --write-rows "$out/torch-forecasts.csv" --write-device "$out/torch-device.yaml"
}

cudnn_log=()
first_call() {
  begin_call 1 360
  export -f facts
  export stepcast gpu_kernels cuda_vs_host
  part facts 12 bash -c facts
  torch_kernels torch-kernels 195
  if ! of_gpu gpu-kernels 30 "$gpu_kernels" || ! of_gpu cuda-vs-host 20 "$cuda_vs_host"; then
    echo "the kernels or the backend are wrong on this GPU: nothing more of the engine is run"
    engine_is_wrong=1
  fi
  if [ -z "$engine_is_wrong" ]; then
    if [ "$backend" = cuda ]; then
      uniform_data
      train run-124m 15 $here/gpt-124m.yaml 20 --set layout.global_batch=16 \
        --set layout.micro_batch=16 --set simulation.graphs=false "${data[@]}"
      train run-124m-graph 15 $here/gpt-124m.yaml 20 --set layout.global_batch=16 \
        --set layout.micro_batch=16 --set simulation.graphs=true "${data[@]}"
    else
      train run-tiny 15 scenarios/real/gpt2-byte-pp2-dp2.yaml 4
    fi
    of_gpu attention-speed 10 "$gpu_kernels" '[speed]'
  fi
  end_call
}

second_call() {
  begin_call 2 360
  measure $main_suite "$main_seconds"
  if [ "$backend" = cuda ]; then
    # First the rows that are compared with PyTorch.
    validate gpu-1-first gpu-1 50 --only 124m-micro-16 --only 1.5b-micro-8
    uniform_data
    train run-1.5b 25 $here/gpt-1.5b.yaml 8 --set layout.global_batch=8 --set layout.micro_batch=8 \
      "${data[@]}"
  fi
  pytorch pytorch-1.5b 100 --model gpt-1.5b:8:1 --attention flash --attention cudnn --steps 5 \
    --warm-up 3 --beside "$out/run-1.5b.log"
  # shellcheck disable=SC2086
  validate $main_suite $main_suite 90 $only_main
  end_call
}

third_call() {
  begin_call 3 360
  torch_kernels torch-kernels-rest 65
  pytorch pytorch-124m 55 --model gpt-124m:16:1 --attention flash --attention cudnn \
    --beside "$out/run-124m.log"
  # The recipe of cuDNN's attention: which graph PyTorch builds, from cuDNN's own log. Its times are
  # those of the log.
  cudnn_log=(CUDNN_LOGLEVEL_DBG=3 "CUDNN_LOGDEST_DBG=$out/pytorch-attention.cudnn.log")
  pytorch pytorch-attention-log 14 --attention-only --attention cudnn
  cudnn_log=()
  # shellcheck disable=SC2086
  set -- $shared_suites
  measure "$1" "$shared_seconds"
  validate "$1" "$1" 75
  if [ "$backend" = cuda ]; then
    uniform_data
    train run-124m-again 15 $here/gpt-124m.yaml 20 --set layout.global_batch=16 \
      --set layout.micro_batch=16 "${data[@]}"
  fi
  if [ -n "$old" ]; then
    part run-old 20 "$old/stepcast" run $here/gpt-124m.yaml --backend "$backend" --steps 20 -o csv \
      --set layout.global_batch=16 --set layout.micro_batch=16
    of_gpu attention-speed-old 15 "$(program_of "$old" gpu_kernels)" '[speed]'
  else
    leave_out run-old "no earlier programs were named (--old)"
  fi
  end_call
}

# What must not hold up the rest.
fourth_call() {
  begin_call 4 360
  # shellcheck disable=SC2086
  set -- $shared_suites
  measure "$2" "$shared_seconds"
  local name=$2
  [ "$1" = "$2" ] && name=$2-again
  validate "$name" "$2" 100
  pytorch pytorch-trace 40 --model gpt-124m:16:1 --attention flash --steps 3 \
    --trace "$out/pytorch-124m.trace.json"
  local checked='attention whose*,attention and*,attention does*,*norm*'  # not the measurements
  of_tool compute-sanitizer memcheck 38 compute-sanitizer --tool memcheck --error-exitcode 1 \
    "$gpu_kernels" "$checked"
  of_tool compute-sanitizer racecheck 34 compute-sanitizer --tool racecheck --error-exitcode 1 \
    "$gpu_kernels" "$checked"
  of_tool ncu ncu 40 ncu --target-processes all --set basic --clock-control none --launch-skip 200 --launch-count 20 \
    --csv --log-file "$out/ncu.csv" "$stepcast" run $here/gpt-124m.yaml --backend cuda --steps 2 \
    --set layout.global_batch=16 --set layout.micro_batch=16 --set simulation.graphs=false
  end_call
}

# What has not run on a GPU yet, beside its forecast: to-confirm.md.
fifth_call() {
  begin_call 5 360
  calibrated=$main_suite
  # shellcheck disable=SC2086
  validate $features_suite $features_suite 280 $only_features
  calibrated=
  end_call
}

# Token ids of equal probability for both sides: a text's bytes would hit 100 rows of the embedding.
data=()
uniform_data() {
  [ ${#data[@]} -eq 0 ] || return 0
  if [ -n "$dry" ] || { [ -f "$out/uniform.tokens" ] || {
    python3 $here/pytorch_baseline.py --write-ids "$out/uniform.ids" &&
      "$stepcast" tokens convert "$out/uniform.ids" "$out/uniform.tokens" --from uint16 \
        --vocabulary 50304
    } >"$out/uniform-data.log" 2>&1; }; then
    data=(--set "training.data=$out/uniform.tokens")
  fi
  rm -f "$out/uniform.ids"
}

write_table() {
  local file part
  {
    echo "# Real runs beside their forecasts"
    for file in "$out"/*.md; do
      [ "$file" = "$out/table.md" ] || [ ! -f "$file" ] || { echo; cat "$file"; }
    done
    for part in torch-kernels torch-kernels-fit torch-kernels-rest torch-kernels-rest-fit gpu-kernels \
      cuda-vs-host run-124m run-124m-graph run-1.5b attention-speed pytorch-124m pytorch-1.5b; do
      [ -f "$out/$part.log" ] || continue
      printf '\n## %s\n' "$part"
      tail -n 24 "$out/$part.log" | sed 's/^/    /'
    done
    printf '\n## parts\n'
    sed 's/^/    /' "$out/parts.csv"
  } >"$out/table.md.part"
  mv -f "$out/table.md.part" "$out/table.md"
}

engine_is_wrong=
main_seconds=25 shared_seconds=20 only_main='' only_features=''
if [ "$backend" = host ]; then main_seconds=12 shared_seconds=5; fi
if [ -n "$short" ]; then main_seconds=2 shared_seconds=1; fi
if [ -n "$short" ] && [ "$backend" = host ]; then
  only_main='--only gpt-dp --only gpt-tp' only_features='--only ring --only lora'
fi
if [ -z "$dry" ]; then
  mkdir -p "$out" || exit 1
  [ -f "$out/parts.csv" ] || echo 'call,part,exit_status,begin_s,seconds' >"$out/parts.csv"
fi
# Calibration, runs and all calls multiply by the same algorithms, and the archive says which.
export STEPCAST_GEMM_CACHE=$out/gemm-choices.txt
for number in $calls; do
  case $number in 1) first_call ;; 2) second_call ;; 3) third_call ;; 4) fourth_call ;; 5) fifth_call ;; esac
done
[ -n "$dry" ] && exit 0
echo "$failures parts failed"
exit $((failures > 0))
