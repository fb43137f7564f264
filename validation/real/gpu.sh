#!/bin/bash
# Builds, tests, calibrates and validates on a machine with one GPU, and runs PyTorch beside it.
# Everything that it measures lands in the output folder as it comes, so that a run that is cut
# short keeps what it has. README.md says what is in there.
#
#   validation/real/gpu.sh [-o FOLDER] [--parts build,test,...] [--build FOLDER] [--jobs N]
#                          [--backend cuda|host] [--seconds N] [--dry-run]
#
# --dry-run prints the commands and their limits; --backend host goes through the same parts on a
# machine without a GPU, with the host backend and the suite host-2 (--seconds: of its calibration).
set -u
cd "$(dirname "$0")/../.." || exit
out=validation/real/results/$(date -u +%Y-%m-%d)
parts=build,test,calibrate,gpu-1,virtual-4,virtual-8,pytorch
build=build/gpu
jobs=$(nproc)
backend=cuda
host_seconds=12
dry=
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=$2; shift ;;
    --parts) parts=$2; shift ;;
    --build) build=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --backend) backend=$2; shift ;;
    --seconds) host_seconds=$2; shift ;;
    --dry-run) dry=1 ;;
    *) echo "gpu.sh: unknown option '$1'" >&2; exit 2 ;;
  esac
  shift
done
case $backend in cuda | host) ;; *) echo "gpu.sh: --backend is cuda or host" >&2; exit 2 ;; esac
stepcast=$build/stepcast
mkdir -p "$out" || exit 1
started=$(date +%s)
failures=0
budget=0   # of all parts
total=525  # seconds, at most, beside the last part's ending

# part NAME SECONDS COMMAND...: runs it within its share of the time and of what is left of the
# whole, output into NAME.log.
part() {
  local name=$1 seconds=$2 status=0 begin left
  shift 2
  budget=$((budget + seconds))
  if [ -n "$dry" ]; then
    echo "$name ($seconds s): $*"
    return
  fi
  begin=$(date +%s)
  left=$((started + total - begin))
  if [ "$left" -lt 10 ]; then
    echo "$name: left out, the time is up" | tee "$out/$name.log"
    echo "$name,left out,$begin,0" >>"$out/parts.csv"
    failures=$((failures + 1))
    return
  fi
  [ "$left" -lt "$seconds" ] && seconds=$left
  # INT first: the program ends its ranks and keeps what it has.
  timeout --signal=INT --kill-after=15 "$seconds" "$@" >"$out/$name.log" 2>&1 || status=$?
  # 5: a bound of the suite is exceeded, which is a result.
  case $status in 0 | 5) ;; *) failures=$((failures + 1)) ;; esac
  printf '%s,%s,%s,%s\n' "$name" "$status" "$begin" "$(($(date +%s) - begin))" >>"$out/parts.csv"
  printf '%-22s exit %3d, %4d s (%d s since the start)\n' "$name" "$status" \
    "$(($(date +%s) - begin))" "$(($(date +%s) - started))"
}
# The last lines of a part's output.
show() { if [ -z "$dry" ] && [ -f "$out/$1.log" ]; then tail -n "$2" "$out/$1.log" | sed 's/^/    /'; fi; }
wanted() { case ,$parts, in *,$1,*) return 0 ;; *) return 1 ;; esac; }

# In a shell of its own, under timeout.
# shellcheck disable=SC2317
configure_and_build() {
  local options="-DCMAKE_BUILD_TYPE=Release" targets="stepcast"
  if [ "$backend" = cuda ]; then
    options="$options -DSTEPCAST_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90"
    wanted test && targets="$targets gpu_kernels cuda_vs_host"
  else
    options="$options -DSTEPCAST_CUDA=OFF -DSTEPCAST_TESTS=OFF"
  fi
  local generator=
  command -v ninja >/dev/null && generator="-G Ninja"
  # shellcheck disable=SC2086
  cmake -S . -B "$build" $generator $options && cmake --build "$build" -j "$jobs" --target $targets
}

# measure SUITE BASE_CLUSTER CALIBRATION_SECONDS: files into $out/SUITE.
measure() {
  if [ "$backend" = cuda ]; then
    part "calibrate-$1" "$(($3 * 2 + 5))" "$stepcast" calibrate --suite "$1" --seconds "$3" \
      --base "$2/device.yaml" --cluster "$2/cluster.yaml" -o "$out/$1"
  else
    part "calibrate-$1" "$(($3 * 3 + 10))" "$stepcast" calibrate --suite "$1" --seconds "$3" \
      -o "$out/$1"
  fi
}

# validate SUITE SECONDS: by the calibrated files where they are there.
validate() {
  local cluster=()
  { [ -n "$dry" ] || [ -f "$out/$1/cluster.yaml" ]; } && cluster=(--cluster "$out/$1/cluster.yaml")
  part "validate-$1" "$2" "$stepcast" validate real "$1" "${cluster[@]}" \
    --records "$out/$1/records" --results "$out/$1.csv" -o md
  [ -n "$dry" ] || cp "$out/validate-$1.log" "$out/$1.md"
}

machine_facts() {
  date -u +%Y-%m-%dT%H:%M:%SZ
  uname -srm
  nproc
  grep -m1 'model name' /proc/cpuinfo
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,power.limit --format=csv \
    2>/dev/null || echo 'no GPU'
  "${CUDACXX:-nvcc}" --version 2>/dev/null | tail -n 2
  git rev-parse HEAD 2>/dev/null
}

[ -n "$dry" ] || machine_facts >"$out/machine.txt"
[ -n "$dry" ] || echo 'part,exit_status,begin_s,seconds' >"$out/parts.csv"
if wanted build; then
  export -f configure_and_build wanted
  export build jobs backend parts
  part build 90 bash -c configure_and_build
fi
if [ -z "$dry" ] && [ ! -x "$stepcast" ]; then
  echo "gpu.sh: there is no $stepcast; see $out/build.log" >&2
  exit 1
fi
if [ "$backend" = host ]; then
  wanted calibrate && measure host-2 "" "$host_seconds"
  validate host-2 90
else
  machines=validation/real/machines
  if wanted test; then
    part gpu-kernels 25 "$build/tests/unit/real_cuda_kernels/gpu_kernels"
    show gpu-kernels 3
    part cuda-vs-host 15 "$build/tests/unit/real_cuda/cuda_vs_host"
    show cuda-vs-host 12
    part attention-speed 10 "$build/tests/unit/real_cuda_kernels/gpu_kernels" "[speed]"
    show attention-speed 20
  fi
  if wanted virtual-4; then
    wanted calibrate && measure gpu-virtual-4 $machines/h200-virtual-4 20
    validate gpu-virtual-4 60
  fi
  if wanted gpu-1; then
    wanted calibrate && measure gpu-1 $machines/h200 10
    validate gpu-1 40
  fi
  if wanted pytorch; then
    part pytorch 70 python3 validation/real/pytorch_baseline.py -o "$out/pytorch.csv" \
      --beside "$out/gpu-1.csv"
    show pytorch 6
  fi
  if wanted virtual-8; then
    wanted calibrate && measure gpu-virtual-8 $machines/h200-virtual-8 15
    validate gpu-virtual-8 80
  fi
fi
if [ -n "$dry" ]; then
  echo "at most $budget s in parts, $total s in all"
  exit 0
fi
{
  echo "# Real runs beside their forecasts"
  sed 's/^/    /' "$out/machine.txt"
  for suite in host-2 gpu-1 gpu-virtual-4 gpu-virtual-8; do
    [ -f "$out/$suite.md" ] && printf '\n' && cat "$out/$suite.md"
  done
  for part in gpu-kernels cuda-vs-host attention-speed pytorch; do
    [ -f "$out/$part.log" ] && printf '\n## %s\n' "$part" && show "$part" 24
  done
} >"$out/table.md"
echo "results: $out ($(($(date +%s) - started)) s, $failures parts failed)"
exit $((failures > 0))
