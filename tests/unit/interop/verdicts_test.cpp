// data/interop: what is said of keys of other programs, and what of such a file is refused.
#include "sim/interop/verdicts.hpp"

#include "sim/config/data_files.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"

using namespace sim;

namespace {

// said() is the verdict on a key, with its reason.
std::string said(std::string_view program, std::string_view list, std::string_view key) {
  const KnownKey* row = known_key(known_keys(program, list), key);
  if (row == nullptr) return "unknown";
  return std::string{word(row->verdict)} + (row->reason.empty() ? "" : ": " + row->reason);
}

std::vector<std::string> refused_rows(const std::string& text) {
  try {
    static_cast<void>(read_verdicts(Document::parse_yaml(text, "a.yaml")));
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

}  // namespace

TEST_CASE("every shipped file of verdicts is read, and no list is empty", "[interop]") {
  const std::vector<std::string> programs = data_files("data/interop");
  CHECK(programs == std::vector<std::string>{"accelerate", "automodel", "bridge", "deepspeed",
                                             "megatron", "mlperf", "nemo1", "primus", "torchtitan",
                                             "trainer"});
  for (const std::string& program : programs)
    for (const KeyList& list : verdicts(program)) {
      CAPTURE(program, list.name);
      CHECK_FALSE(list.keys.empty());
    }
}

TEST_CASE("verdicts on keys of Accelerate", "[interop]") {
  CHECK(said("accelerate", "top", "use_cpu") == "refused: training on CPUs is not modelled");
  CHECK(said("accelerate", "fsdp", "xla") == "refused: TPUs are not modelled");
  CHECK(said("accelerate", "parallelism", "cp_backend") == "ignored");
  CHECK(said("accelerate", "deepspeed", "deepspeed_hostfile") == "ignored");
}
TEST_CASE("verdicts on keys of Automodel", "[interop]") {
  CHECK(said("automodel", "peft", "use_dora") == "refused: DoRA is not modelled");
  CHECK(said("automodel", "peft", "any_other") == "ignored");
  CHECK(said("automodel", "top", "kd_ratio") ==
        "refused: a loss over another model is not modelled");
}
TEST_CASE("verdicts on keys of Megatron-Bridge", "[interop]") {
  CHECK(said("bridge", "model", "rotary_base") == "ignored");
  CHECK(said("bridge", "train", "rampup_batch_size") == "noted: the final batch is forecast");
  CHECK(said("bridge", "dist", "distributed_backend") == "refused: modelled: nccl");
  CHECK(known_keys("bridge", "logger").empty());
}
TEST_CASE("verdicts on keys of DeepSpeed", "[interop]") {
  CHECK(said("deepspeed", "zero", "zenflow") == "refused: not modelled");
  CHECK(said("deepspeed", "stage_3", "zenflow") == "unknown");
  CHECK(said("deepspeed", "precision", "check_grad_overflow") ==
        "unmodelled: the check is not modelled");
}
TEST_CASE("verdicts on flags of Megatron-LM", "[interop]") {
  CHECK(said("megatron", "flags", "--export-kd-cfg") ==
        "refused: a loss over another model is not modelled");
  CHECK(said("megatron", "flags", "--export-offline-model") == "ignored");
  CHECK(said("megatron", "flags", "--num-layers") == "unknown");
  CHECK(said("megatron", "experts", "moe_extended_tp") ==
        "refused: set the expert tensor parallel size instead");
  CHECK(said("megatron", "experts", "moe_z_loss_coeff") == "ignored");
  CHECK(known_key(known_keys("megatron", "flags"), "--encoder-num-layers")->neutral == "0");
}
TEST_CASE("verdicts on variables of MLPerf", "[interop]") {
  CHECK(said("mlperf", "tuning", "FSDP") ==
        "refused: modelled: the distributed optimizer, without FSDP");
  CHECK(said("mlperf", "knobs", "NCCL_ALGO") == "ignored");
  CHECK(said("mlperf", "around", "SLURM_JOB_ID") == "ignored");
}
TEST_CASE("verdicts on keys of NeMo 1.x", "[interop]") {
  CHECK(said("nemo1", "model", "drop_layers") == "refused: layers left out are not modelled");
  CHECK(said("nemo1", "model", "moe_anything") == "ignored");
}
TEST_CASE("verdicts on flags of Primus", "[interop]") {
  CHECK(said("primus", "flags", "--weight-deosc") ==
        "unmodelled: its pass over the weights is not modelled");
  CHECK(said("primus", "flags", "--weight-deosc-freq") == "ignored");
}
TEST_CASE("verdicts on keys of torchtitan", "[interop]") {
  CHECK(said("torchtitan", "compile", "backend") ==
        "noted: compiled kernels are modelled as inductor's");
  CHECK(said("torchtitan", "metrics", "log_freq") == "ignored");
}
TEST_CASE("verdicts on arguments of trainers", "[interop]") {
  CHECK(said("trainer", "keys", "gptq") == "refused: quantised weights are not modelled");
  CHECK(said("trainer", "costless", "wandb_mode") == "ignored");
}

TEST_CASE("a file of verdicts is checked when it is read", "[interop]") {
  const auto problem = [](const std::string& row) {
    const std::vector<std::string> found = refused_rows("keys:\n  - " + row + "\n");
    return found.empty() ? std::string{} : found.front();
  };
  CHECK(problem("{refused: [a, b*], because: c}").empty());
  CHECK_THAT(problem("{because: c}"),
             contains_text("needs one of refused, noted, unmodelled, ignored"));
  CHECK_THAT(problem("{refused: a, noted: b, because: c}"), contains_text("a row has one verdict"));
  CHECK_THAT(problem("{noted: a}"), contains_text("because"));
  CHECK_THAT(problem("{ignored: a, because: c}"), contains_text("because"));
  CHECK_THAT(problem("{ignored: a*b}"), contains_text("none with a '*' at its end"));
  CHECK_THAT(problem("{ignored: [a*, ab]}"), contains_text("'ab' is decided above, by 'a*'"));
  CHECK_THAT(problem("{ignored: a, forbidden: b}"), contains_text("forbidden"));
}
