// Launch files: scripts that write and start other scripts, Slurm, jobs of Kubernetes, and
// experiments of Primus. All inputs are written for these tests.
#include "sim/scripts/launch/launch.hpp"

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

// The words of each program that is given flags, with a blank between.
Lines programs_of(const std::string& text, const std::vector<Definition>& given = {}) {
  Lines lines;
  for (const LaunchedProgram& program : parse_launch(text, "job", given).programs) {
    std::string line;
    for (const LaunchWord& word : program.words)
      line += (line.empty() ? "" : " ") + word.text;
    if (line.find("--") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

std::string flag_of(const std::string& text, const std::string& name) {
  const Document document = parse_flags(text, "job", {});
  const ObjectReader root = document.root_object();
  return root.has(name) ? root.at(name).peek_text().value_or("?") : "none";
}

const std::string flags = "--num-layers 4 --hidden-size 64 --micro-batch-size 1";

}  // namespace

TEST_CASE("a script that a script writes and starts is read, behind its launcher", "[scripts]") {
  const std::string quoted =
      "cat > work.sh <<'END'\nL=4\npython train.py --num-layers $L\nEND\n"
      "srun --nodes 2 bash work.sh\n";
  CHECK(programs_of(quoted) == Lines{"srun --nodes 2 bash python train.py --num-layers 4"});
  // Without quotes the outer variables are written into it.
  const std::string plain =
      "L=8\ncat <<END > work.sh\npython train.py --num-layers $L\nEND\n"
      "exec bash ./work.sh\n";
  CHECK(programs_of(plain) == Lines{"exec bash python train.py --num-layers 8"});
  const std::string echoed =
      "text=$(cat <<- END\npython train.py --num-layers 2 \\\n  --lr 1\nEND\n)\n"
      "echo \"$text\" > w.sh\ntorchrun --nnodes 3 --no-python bash w.sh\n";
  CHECK(programs_of(echoed) ==
        Lines{"torchrun --nnodes 3 --no-python bash python train.py --num-layers 2 --lr 1"});
  // Nobody here starts it.
  CHECK(programs_of("cat > job.sbatch <<END\npython a.py --lr 1\nEND\nls\n") ==
        Lines{"python a.py --lr 1"});
  CHECK(programs_of("srun -N 2 bash <<'END'\npython a.py --lr 1\nEND\n") ==
        Lines{"srun -N 2 bash python a.py --lr 1"});
}

TEST_CASE("a quote that a line of Slurm never closes is told", "[scripts]") {
  CHECK_THROWS_AS(parse_launch("#SBATCH --job-name=${`a}\npython3 train.py\n", "run.sh", {}),
                  InputError);
}

TEST_CASE("what is only printed is no program", "[scripts]") {
  CHECK(programs_of("cat <<END\nusage: run.py --lr LR\nEND\npython a.py --lr 1\n") ==
        Lines{"python a.py --lr 1"});
}

TEST_CASE("a shell's text has the words of its launcher in front", "[scripts]") {
  CHECK(flag_of("srun -N 4 --ntasks-per-node=8 bash -c 'python pretrain.py " + flags + "'",
                "--nnodes") == "4");
}

TEST_CASE("Slurm's sizes are the job's, and its variables known", "[scripts]") {
  const std::string script =
      "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n"
      "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 pretrain.py " +
      flags + " --global-batch-size $((SLURM_JOB_NUM_NODES * 16))\n";
  CHECK(flag_of(script, "--nnodes") == "4");
  CHECK(flag_of(script, "--global-batch-size") == "64");
  const Launch launch = parse_launch(script, "job", {});
  CHECK(sizes_of(launch, launch.programs.back(), 6).all() == 32);
}

TEST_CASE("a number of nodes that nobody says is not one", "[scripts]") {
  const std::string script =
      "torchrun --nnodes $NODES --nproc_per_node 8 pretrain.py " + flags + "\n";
  CHECK(flag_of(script, "--nproc-per-node") == "none");
  CHECK(flag_of("NODES=2\n" + script, "--nproc-per-node") == "8");
}

TEST_CASE("a job of Kubernetes: words, variables, pods", "[scripts]") {
  const std::string job = R"yaml(apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  go.sh: |
    torchrun --nnodes=$NODES pretrain.py --num-layers 4 --hidden-size $1 --micro-batch-size 1
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          containers:
            - name: train
              env: [{name: WIDTH, value: "512"}]
              command: [bash, /scripts/go.sh]
              args: ["$(WIDTH)"]
              resources: {limits: {nvidia.com/gpu: 4}}
    Worker: {replicas: 5, template: *pod}
)yaml";
  CHECK(flag_of(job, "--hidden-size") == "512");
  CHECK(flag_of(job, "--nnodes") == "6");
  CHECK(flag_of(job, "--nproc-per-node") == "4");
  CHECK(parse_launch(job, "job", {}).job.all() == 24);
}

TEST_CASE("values of a chart, and a template that is none", "[scripts]") {
  CHECK(flag_of("workers: 2\ncommand: [python, pretrain.py]\nargs:\n  - --num-layers=4\n"
                "  - --hidden-size=64\n",
                "--hidden-size") == "64");
  try {
    static_cast<void>(parse_launch("kind: Job\napiVersion: v1\nx: {{ .Values.a }}\n", "job", {}));
    FAIL("a template is no manifest");
  } catch (const InputError& error) {
    CHECK(test::lines_of(error).front().find("helm template") != std::string::npos);
  }
}

TEST_CASE("an experiment of Primus: variables, names of arguments, presets", "[scripts]") {
  const std::string text = R"(exp_name: ${NAME:a}
modules:
  pre_trainer:
    framework: megatron
    overrides:
      num_layers: 4
      micro_batch_size: ${MBS:3}
      global_batch_size: "${GBS:12}"
      recompute_granularity: null
      apply_rope_fusion: false
      fp8: hybrid
      enable_primus_turbo: true
)";
  CHECK(flag_of(text, "--num-layers") == "4");
  CHECK(flag_of(text, "--micro-batch-size") == "3");
  CHECK(flag_of(text, "--global-batch-size") == "12");
  CHECK(flag_of(text, "--recompute-granularity") == "none");
  CHECK(flag_of(text, "--no-rope-fusion") == "True");
  CHECK(flag_of(text, "--fp8-format") == "hybrid");
  CHECK(flag_of(text, "--bf16") == "True");  // of Primus's presets
  const std::vector<Definition> given{{"MBS", "5"}};
  const Document document = parse_flags(text, "job", given);
  CHECK(document.root_object().text("--micro-batch-size") == "5");
}
