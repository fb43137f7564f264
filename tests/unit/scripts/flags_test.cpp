// Flags as people keep them: lists, arrays, whole launch scripts, printed arguments, YAML. All
// inputs are written for these tests.
#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"

using namespace sim;

namespace {

using Lines = std::vector<std::string>;

// "--flag value" of each flag; a list as "a, b".
Lines flags_of(const std::string& text, const std::vector<Definition>& given = {}) {
  const Document document = parse_flags(text, "run.sh", given);
  const ObjectReader root = document.root_object();
  Lines lines;
  for (const std::string& key : root.keys()) {
    const ValueReader value = root.at(key);
    std::string line = key;
    if (value.is_list())
      for (const ValueReader& item : value.list())
        line.append(" ").append(item.peek_text().value_or("?"));
    else
      line.append(" ").append(value.peek_text().value_or("?"));
    lines.push_back(line);
  }
  return lines;
}

std::string problem_of(const std::string& text, const std::vector<Definition>& given = {}) {
  try {
    static_cast<void>(parse_flags(text, "run.sh", given));
  } catch (const InputError& error) {
    return test::lines_of(error).front();
  }
  return "";
}

Lines remarks_of(const std::string& text) {
  const Document document = parse_flags(text, "run.sh", {});
  Lines lines;
  for (const Remark& remark : document.remarks())
    lines.push_back(remark.about + ": " + remark.what);
  return lines;
}

}  // namespace

TEST_CASE("a launch script: the flags of the command that trains", "[scripts]") {
  const std::string script = R"sh(#!/bin/bash
set -euxo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1
source ./env.sh
GPUS_PER_NODE=8
NODES=${NODES:-2}
TP=${TP:-4}
WORLD=$((GPUS_PER_NODE * $NODES))
mkdir -p "$OUT/$(date +%s)"
LAUNCH="--nproc_per_node $GPUS_PER_NODE \
  --nnodes $NODES --node_rank $RANK"
MODEL=(
  --num-layers 24   # layers
  "--hidden-size 1024"
  --seq-length=2048
)
MORE=("${MODEL[@]}" --bf16)
python tools/convert.py --num-layers 99
torchrun $LAUNCH pretrain_gpt.py \
  ${MORE[@]} \
  --tensor-model-parallel-size $TP --global-batch-size $((WORLD*2)) \
  --save "$OUT/ckpt" 2>&1 | tee log.txt
echo done --num-layers 7
)sh";
  const Lines expected{"--nproc-per-node 8",
                       "--nnodes 2",
                       "--num-layers 24",
                       "--hidden-size 1024",
                       "--seq-length 2048",
                       "--bf16 true",
                       "--tensor-model-parallel-size 4",
                       "--global-batch-size 32",
                       "--save $OUT/ckpt"};
  CHECK(flags_of(script) == expected);
  // As an editor on Windows saves it.
  std::string windows;
  for (const char c : script)
    windows.append(c == '\n' ? "\r" : "").append(1, c);
  CHECK(flags_of(windows) == expected);
  const Lines given = flags_of(script, {{"TP", "8"}});
  CHECK(std::ranges::find(given, "--tensor-model-parallel-size 8") != given.end());
}

TEST_CASE("conditions are followed as far as the text goes", "[scripts]") {
  const auto layers = [](const std::string& text, const std::vector<Definition>& given = {}) {
    return flags_of(text + "\ntorchrun pretrain_gpt.py --num-layers $LAYERS\n", given).front();
  };
  CHECK(layers("SIZE=7B\nif [ $SIZE == 7B ]; then LAYERS=32\nelif [ $SIZE == 13B ]; then\n"
               "LAYERS=40; else LAYERS=1; fi") == "--num-layers 32");
  CHECK(layers("case ${SIZE:-13B} in 7B) LAYERS=32 ;; 13B|14B)\n LAYERS=40\n;; *) exit 1;; esac") ==
        "--num-layers 40");
  CHECK(layers("[[ -z $LAYERS && 3 -gt 2 ]] && LAYERS=5") == "--num-layers 5");
  CHECK(layers("LAYERS=3\nif (( LAYERS > 2 )); then ((LAYERS = LAYERS * 2)); fi") ==
        "--num-layers 6");
  CHECK(layers("use() {\n  LAYERS=$1\n}\nuse 7") == "--num-layers 7");
  // Only the machine knows these: by name, or by the name of the variable that they hang on.
  CHECK(layers("if [ -f a.txt ]; then LAYERS=3; fi") == "--num-layers $LAYERS");
  CHECK(layers("LAYERS=$(wc -l < a)") == "--num-layers $LAYERS");
  const std::string sized = "SIZE=$1\nif [ $SIZE = a ]; then LAYERS=3; fi";
  CHECK(layers(sized) == "--num-layers $SIZE");
  CHECK(layers(sized, {{"SIZE", "a"}}) == "--num-layers 3");
  CHECK(layers(sized, {{"1", "a"}}) == "--num-layers 3");
  CHECK(layers("for LAYERS in 2 4; do true; done") == "--num-layers $LAYERS");
}

TEST_CASE("a flag that may be given or not is not known", "[scripts]") {
  const std::string text =
      "ARGS=(--num-layers 2)\nif [ -d ckpt ]; then\n  ARGS+=(--load ckpt)\nfi\n"
      "EXTRA=\"\"\nif grep -q fp8 conf; then EXTRA=\"--fp8-format hybrid\"; fi\n"
      "torchrun pretrain_gpt.py ${ARGS[@]} $EXTRA\n";
  CHECK(flags_of(text) == Lines{"--num-layers 2", "--load $ARGS", "--fp8-format $EXTRA"});
}

TEST_CASE("a repeated flag: the last one counts, and it is said", "[scripts]") {
  const std::string text = "--num-layers 2\n--lr 1\n--num_layers 4\n";
  CHECK(flags_of(text) == Lines{"--num-layers 4", "--lr 1"});
  CHECK(remarks_of(text) ==
        Lines{"--num-layers: given on line 1 and again on line 3, which counts"});
  CHECK(remarks_of("if [ \"$FP8\" = 1 ]; then A=--fp8; fi\ntorchrun a.py --num-layers 2\n") ==
        Lines{"$FP8: nothing in the file sets it, and a condition on line 1 read it as empty; else "
              "give --define FP8=VALUE"});
}

TEST_CASE("texts that are scripts, and documents that are none", "[scripts]") {
  CHECK(flags_of("CMD=\"torchrun pretrain_gpt.py --num-layers 2 --lr '1e-4'\"\necho $CMD\n"
                 "eval ${CMD}\n") == Lines{"--num-layers 2", "--lr 1e-4"});
  CHECK(flags_of("srun -N 4 --ntasks-per-node=8 bash -c \"python a.py --num-layers 2\"\n") ==
        Lines{"--nnodes 4", "--nproc-per-node 8", "--num-layers 2"});
  CHECK(flags_of("cat > x.yaml <<EOF\n--num-layers: 3\nEOF\ntorchrun a.py --num-layers 2\n") ==
        Lines{"--num-layers 2"});
  CHECK(flags_of("NPROC_PER_NODE=8 NNODES=2 \\\nmegatron sft --micro_batch_size 2\n") ==
        Lines{"--nproc-per-node 8", "--nnodes 2", "--micro-batch-size 2"});
}

TEST_CASE("a word of no value is none, and a comment in backticks is nothing", "[scripts]") {
  CHECK(flags_of("E=()\ntorchrun a.py --num-layers 2 --bf16 \"$@\" \"${E[@]}\"\n") ==
        Lines{"--num-layers 2", "--bf16 true"});
  CHECK(flags_of("torchrun a.py --num-layers 2 \\\n  `# formats` --bf16\n") ==
        Lines{"--num-layers 2", "--bf16 true"});
}

TEST_CASE("how many processes there are, where launchers say it", "[scripts]") {
  CHECK(flags_of("#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node 8\n"
                 "srun sh -c \"python a.py --num-layers 2\"\n") ==
        Lines{"--nnodes 4", "--nproc-per-node 8", "--num-layers 2"});
  // Which of the two runs is not known.
  CHECK(flags_of("if [ $N -gt 1 ]; then torchrun --nnodes 2 a.py --num-layers 2\n"
                 "else torchrun --nnodes 1 a.py --num-layers 2; fi\n") == Lines{"--num-layers 2"});
}

TEST_CASE("lists and arrays hold what a shell would want in quotes", "[scripts]") {
  CHECK(flags_of("--moe-layer-freq ([0]*3+[1]*58)\n--layout Et|(tt|)*30L\n") ==
        Lines{"--moe-layer-freq ([0]*3+[1]*58)", "--layout Et|(tt|)*30L"});
  CHECK(flags_of("A=( --moe-layer-freq ([0]*1+[1]*2) \"--split '99,1'\" )\n") ==
        Lines{"--moe-layer-freq ([0]*1+[1]*2)", "--split 99,1"});
  CHECK(flags_of("ARGS=\"--a 1 --b\"\n") == Lines{"--a 1", "--b true"});
}

TEST_CASE("scripts that cannot be read say why", "[scripts]") {
  CHECK(problem_of("torchrun a.py --num-layers 2 \\\n  # --lr 1 \\\n  --bf16\n") ==
        "3:3: the comment above ends the command, so the shell does not hand these flags on: move "
        "the comment");
  CHECK(problem_of("torchrun a.py --num-layers 2\ntorchrun a.py --num-layers 4\n") ==
        "2:1: this command trains, and that on line 1 does with other flags: leave one of them in "
        "the file");
  CHECK(problem_of("torchrun a.py --num-layers 2 ${DATA[@]}\n") ==
        "1:30: the arguments in ${DATA[@]} are not in this file: paste them, too");
  CHECK(problem_of("torchrun a.py --freq ([0]) --num-layers 1") ==
        "1:22: '(' needs quotes here, for the shell too");
  CHECK(problem_of("A=\"b") == "1:3: the quote that opens here is never closed");
  CHECK(problem_of("echo hello") == "1:1: there is no --flag in this file");
  CHECK_FALSE(problem_of("A=$A$A$A\nA=1\nf() { A=$A$A; f; }\nf\n").empty());
}

TEST_CASE("arguments that a training prints", "[scripts]") {
  const std::string block =
      "[rank0]: ------------------------ arguments ------------------------\n"
      "[rank0]:   bf16 ............................................ True\n"
      "[rank0]:   num_layers ...................................... 24\n"
      "[rank0]:   add_bias_linear ................................. False\n"
      "[rank0]:   recompute_modules ............................... ['core_attn', 'mlp']\n"
      "[rank0]:   attention_backend ............................... AttnBackend.flash\n"
      "[rank0]:   exp_avg_dtype ................................... torch.bfloat16\n"
      "[rank0]:   load ............................................ None\n"
      "[rank0]:   a_name_that_is_so_long_that_no_dots_fit_behind_it  7\n"
      "[rank0]: -------------------- end of arguments ---------------------\n"
      "[rank0]: > setting tensorboard ...\n";
  CHECK(flags_of(block) == Lines{"printed true", "--bf16 True", "--num-layers 24",
                                 "--disable-bias-linear True", "--recompute-modules core_attn mlp",
                                 "--attention-backend flash", "--exp-avg-dtype bf16",
                                 "--a-name-that-is-so-long-that-no-dots-fit-behind-it 7"});
}

TEST_CASE("arguments as YAML", "[scripts]") {
  CHECK(flags_of("ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --num-layers: 24\n  bf16: true\n"
                 "  recompute_modules: [core_attn, mlp]\n") ==
        Lines{"--num-layers 24", "--bf16 true", "--recompute-modules core_attn mlp"});
  CHECK(problem_of("ARGS:\n  num_layers: {a: 1}\n") ==
        "2:15: expected a value or a list of values for a flag");
}
