// The program on files with mistakes: commands that read one kind of input each, files of that
// kind that are shipped, samples or written by the program itself, and mistakes drawn by seed. It
// ends with a result or an error of input that a terminal can show, whatever it was given.
//   usage: mutated_commands PROGRAM, from the root of the source tree
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/fuzz/support/mutate.hpp"
#include "tests/temporary.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mutations_in_ci = 40;  // of each kind
constexpr rlim_t memory = rlim_t{6} << 30;     // which no reader needs

// A command that reads the file {}, and may write {out}, which `then` reads.
struct Kind {
  std::string command;
  std::vector<std::string> files;  // {made}: what the program has written
  std::string then{};
};

const std::array<std::string, 4> makes_files = {
    "simulate scenarios/gpt2-124m-8-h100.yaml --no-what-if --record {made}/record.json",
    "sweep scenarios/gpt2-124m-8-h100.yaml --over layout.micro_batch=1,2 --results "
    "{made}/sweep.jsonl",
    "search --model gpt2 --cluster dgx-h100 --gpus 2 --batch 8 --sequence 1024 --results "
    "{made}/search.jsonl",
    "anchor scenarios/gpt2-124m-8-h100.yaml --step-time 100ms -o {made}/anchor.yaml"};

std::vector<Kind> kinds() {
  const std::string job = " {} --cluster dgx-h100 -o {out}";
  const std::string forecast = "simulate {out} --no-what-if";
  const std::string model = " --model llama-3.1-8b --seq-length 4096 --micro-batch-size 1";
  const std::string r = "tests/recipes/", c = "tests/fuzz/corpus/", s = "scenarios/";
  return {
      {"simulate {} --no-what-if",
       {s + "gpt2-124m-8-h100.yaml", s + "resnet50-16-v100.yaml",
        s + "llama-3.1-8b-fsdp-8-h100.yaml", s + "gpt2-64-h100-ethernet.yaml",
        s + "llama-3.1-8b-sft-16-h100.yaml"}},
      {"simulate {} --no-what-if",
       {s + "mixtral-8x7b-64-h100.yaml", s + "deepseek-v3-16b-fsdp-64-h100.yaml",
        s + "llama-3.1-70b-512-h100.yaml"}},
      {"memory {}", {s + "llama-3.1-405b-16384-h100.yaml", s + "vit-l16-64-a100.yaml"}},
      {"export {} --to megatron",
       {s + "llama-3.1-70b-512-h100.yaml", s + "mixtral-8x7b-64-h100.yaml"}},
      {"budget {} --tokens 1e9", {s + "gpt2-124m-8-h100.yaml"}},
      {"models show {}",
       {"models/gpt2.yaml", "models/gemma-3-27b.yaml", "models/deepseek-v3.yaml",
        "models/nemotron-h-8b.yaml", "models/resnet50.yaml", "models/qwen3-next-80b-a3b.yaml"}},
      {"import hf {}", {"models/llama-3.1-405b/config.json"}},
      {"topo check {}",
       {"topologies/dgx-h100.yaml", "topologies/dragonfly-a100.yaml", "topologies/gb200-nvl72.yaml",
        "topologies/torus-3d-h100.yaml", "topologies/two-sites-h100.yaml", c + "fabric/tree.conf",
        c + "fabric/two.yaml"}},
      {"calibrate --from-kineto tests/fuzz/corpus/kineto/small.json --base {} --write-device {out}",
       {"topologies/devices/h100_sxm.yaml", "topologies/devices/mi300x.yaml"}},
      {"import fabric {}", {c + "fabric/small.txt", c + "fabric/tree.conf", c + "fabric/two.yaml"}},
      {"import nccl-xml {}", {c + "nccl_xml/mesh.xml", c + "nccl_xml/two_gpus.xml"}},
      {"import nvidia-smi {}", {c + "nvidia_smi/four_gpus.txt", c + "nvidia_smi/grace.txt"}},
      {"import megatron" + job + " --gpus 64",
       {r + "megatron_llama.sh", r + "megatron_job.yaml"},
       forecast},
      {"import torchtitan" + job, {r + "torchtitan.toml"}, forecast},
      {"import deepspeed" + job + " --gpus 64 --gradient-accumulation-steps 2 --precision bf16" +
           model,
       {r + "deepspeed_zero3.json"},
       forecast},
      {"import accelerate" + job + " --gpus 64" + model,
       {r + "accelerate_cp.yaml", r + "accelerate_fsdp2.yaml"},
       forecast},
      {"import axolotl" + job + " --gpus 64",
       {r + "axolotl_fft.yaml", r + "axolotl_qlora.yml"},
       forecast},
      {"import llama-factory" + job + " --gpus 64",
       {r + "llama_factory_full.yaml", r + "llama_factory_lora.yaml"},
       forecast},
      {"import trl" + job, {r + "trl_launch.sh"}, forecast},
      {"import bridge" + job + " --gpus 64", {r + "bridge.yaml", r + "bridge_recipe.py"}, forecast},
      {"import automodel" + job + " --gpus 8",
       {r + "automodel_experts.yaml", r + "automodel_lora_tp.yaml", r + "automodel_pipeline.yaml",
        r + "automodel_sft.yaml"},
       forecast},
      {"import mlperf" + job,
       {r + "config_DGXB200_1x8x1_lora.sh", r + "config_GB200_18x4x1_8b.sh"},
       forecast},
      {"import primus" + job + " --gpus 8", {r + "primus_experiment.yaml"}, forecast},
      {"validate rows {}",
       {"validation/recipes/trainer_h100.csv", "validation/beyond/zero3_2021.csv"}},
      {"validate curves {} validation/curves/index.csv", {"validation/curves/curves.csv"}},
      {"validate curves validation/curves/curves.csv {}", {"validation/curves/index.csv"}},
      {"validate real {} --no-run --records {made}", {"validation/real/host-2.yaml"}},
      {"convergence {} --theory", {"validation/convergence/byte-llama.yaml"}},
      {"choose scenarios/gpt2-64-h100-ethernet.yaml --over layout.micro_batch=1 --factors "
       "{}",
       {"validation/convergence/results/servers/factors.yaml"}},
      {"calibrate --from-nccl-tests {} --collective all_reduce --cluster dgx-h100 --write-cluster "
       "{out}",
       {c + "nccl_tests/tagged.log", c + "nccl_tests/tests.json", c + "nccl_tests/inspector.jsonl"},
       "topo check {out}"},
      {"calibrate --from-kineto {} --base h100_sxm --write-device {out}",
       {c + "kineto/small.json"}},
      {"calibrate --from-kernels {} --base h100_sxm --write-device {out}",
       {c + "kernel_rows/small.csv"}},
      {"anchor scenarios/gpt2-124m-8-h100.yaml --log {}",
       {c + "training_log/megatron", c + "training_log/torchtitan", c + "training_log/bridge"}},
      {"tokens show {}",
       {c + "tokens/stepcast-16", c + "tokens/llm-c-16", c + "tokens/megatron-uint16"}},
      {"compare {} {made}/record.json", {"{made}/record.json"}},
      {"merge {}", {"{made}/sweep.jsonl", "{made}/search.jsonl"}},
      {"simulate scenarios/gpt2-124m-8-h100.yaml --no-what-if --anchor {}", {"{made}/anchor.yaml"}},
  };
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string read(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

class Program {
 public:
  Program(std::string path, fs::path folder) : path_{std::move(path)}, folder_{std::move(folder)} {}

  // Its wait status; what it says of mistakes is in said().
  int run(const std::string& command) {
    std::istringstream words{command};
    std::vector<std::string> arguments{path_};
    for (std::string word; words >> word;)
      arguments.push_back(word);
    std::vector<char*> pointers;
    for (std::string& argument : arguments)
      pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const fs::path messages = folder_ / "messages";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_RDWR), 0);
      ::dup2(0, 1);
      ::dup2(::open(messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    said_ = read(messages);
    return status;
  }
  const std::string& said() const { return said_; }

  // Empty, or what is wrong with how the program ended.
  std::string wrong(int status) const {
    if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
    constexpr std::array allowed = {0, 3, 4, 5};
    const int code = WEXITSTATUS(status);
    if (std::ranges::count(allowed, code) == 0) return fmt::format("exit code {}", code);
    if (code == 3 && said_.empty()) return "nothing is told";
    const bool printable = std::ranges::none_of(
        said_, [](unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f; });
    return printable ? "" : "control characters for the terminal";
  }

 private:
  std::string path_;
  fs::path folder_;
  std::string said_;
};

class Test {
 public:
  Test(const std::string& program, fs::path folder)
      : folder_{std::move(folder)}, program_{program, folder_} {
    for (const char* name : {"models", "topologies", "scenarios", "validation", "data"})
      fs::create_symlink(fs::absolute(name), folder_ / name);
    fs::create_directory(folder_ / "made");
    for (const std::string& command : makes_files)
      check(command, "of the program");
  }

  void run(const Kind& kind, std::size_t number, const fuzz::Draws& draws) {
    for (const std::string& name : kind.files)
      check_original(filled(kind.command, filled(name, "", ""), folder_ / "original.yaml"));
    for (std::uint64_t i = 0; i < draws.count; ++i) {
      const std::string& name = kind.files[i % kind.files.size()];
      const fs::path file = place_of(name, number);
      const std::uint64_t seed = sim::hash_combine(sim::hash_combine(draws.seed, number), i);
      const std::string text = fuzz::mutated(read(filled(name, "", "")), seed);
      std::ofstream{file, std::ios::binary} << text;
      const fs::path out = file.parent_path() / "out.yaml";
      fs::remove(out);
      ++runs_;
      const std::string what = fmt::format("{} with the mistakes of seed {}", name, seed);
      const bool sound =
          check(filled(kind.command, file, out), what) &&
          (kind.then.empty() || !fs::exists(out) || check(filled(kind.then, file, out), what));
      if (!sound)
        fs::copy_file(file, folder_ / fmt::format("{}-{}", seed, file.filename().string()));
    }
  }

  std::uint64_t runs() const { return runs_; }
  std::uint64_t failures() const { return failures_; }

 private:
  // Beside links to what lies beside `name`.
  fs::path place_of(const std::string& name, std::size_t number) {
    const fs::path original = fs::absolute(filled(name, "", ""));
    const fs::path place = folder_ / fmt::format("{}-{}", number, original.stem().string());
    if (fs::create_directory(place))
      for (const auto& entry : fs::directory_iterator{original.parent_path()})
        if (entry.path() != original)
          fs::create_symlink(entry.path(), place / entry.path().filename());
    return place / original.filename();
  }

  std::string filled(std::string text, const fs::path& file, const fs::path& out) const {
    replace_all(text, "{}", file.string());
    replace_all(text, "{out}", out.string());
    replace_all(text, "{made}", (folder_ / "made").string());
    return text;
  }

  // A table whose commands are refused anyway tries nothing.
  void check_original(const std::string& command) {
    const int status = program_.run(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 3 && program_.wrong(status).empty()) return;
    ++failures_;
    fmt::print("FAILED: stepcast {}\n{}\n", command, program_.said());
  }

  bool check(const std::string& command, const std::string& what) {
    const std::string filled_command = filled(command, "", "");
    const std::string wrong = program_.wrong(program_.run(filled_command));
    if (wrong.empty()) return true;
    ++failures_;
    fmt::print("FAILED: stepcast {}\n  {}: {}\n{}\n", filled_command, what, wrong,
               program_.said().substr(0, 2000));
    return false;
  }

  fs::path folder_;
  Program program_;
  std::uint64_t runs_ = 0, failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const rlimit limit{memory, memory};
  ::setrlimit(RLIMIT_AS, &limit);
  const fs::path folder = sim::test::temporary_path("mutated-commands");
  fs::create_directory(folder);
  Test test{argv[1], folder};
  const fuzz::Draws draws = fuzz::draws(mutations_in_ci);
  const std::vector<Kind> all = kinds();
  for (std::size_t i = 0; i < all.size(); ++i)
    test.run(all[i], i, draws);
  fmt::print("{} files with mistakes, {} failed\n", test.runs(), test.failures());
  if (test.failures() == 0)
    fs::remove_all(folder);
  else
    fmt::print("the files that failed are in {}\n", folder.string());
  return test.failures() == 0 ? 0 : 1;
}
