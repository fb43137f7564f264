// Checkpoints come back bit by bit under any layout, and only as they were written.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "real/engine/checkpoint/sha256.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence.hpp"
#include "tests/property/equivalence_cases.hpp"
#include "tests/temporary.hpp"

namespace real::test {
namespace {

namespace files = std::filesystem;

using Change = std::function<void(sim::Layout&)>;

// A folder of a checkpoint after two steps of tp 2 x dp 2, ZeRO-2 unless that is changed.
class Saved {
 public:
  explicit Saved(const ModelTraits& traits = {.tied = true}, const Change& change = {},
                 const sim::LearningRate& rate = {})
      : model{equivalence_model(traits)} {
    layout = listed_cases().front().layout;
    layout.tensor_parallel = layout.data_parallel = 2;
    layout.micro_batch = 1;
    layout.zero_stage = 2;
    if (change) change(layout);
    training.steps = 2;
    training.learning_rate = rate;
    files::remove_all(folder);
    TrainOptions options;
    options.save = folder.string();
    whole = train_on_host(model, layout, training, corpus, options);
  }
  ~Saved() { files::remove_all(folder); }
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;

  TrainedModel resumed(const sim::Layout& under) const {
    TrainOptions options;
    options.resume = folder.string();
    return train_on_host(model, under, training, corpus, options);
  }
  std::string refusal() const {
    try {
      static_cast<void>(resumed(layout));
    } catch (const sim::InputError& error) {
      return files::path{error.problems().front().where.file}.filename().string() + ": " +
             error.problems().front().what;
    }
    return "taken";
  }
  files::path file(const char* name) const { return folder / "step-00000002" / name; }

  files::path folder = sim::test::temporary_path("checkpoint");
  sim::Model model;
  std::unique_ptr<sim::test::TemporaryFile> text = equivalence_text();
  Corpus corpus{text->path(), model, 8};
  sim::Layout layout;
  sim::Training training;
  TrainedModel whole;
};

bool same_bits(const GlobalTensors& a, const GlobalTensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return a.size() == b.size();
}

void check_same(const TrainedModel& a, const TrainedModel& b) {
  CHECK(same_bits(a.weights, b.weights));
  CHECK(same_bits(a.first_moments, b.first_moments));
  CHECK(same_bits(a.second_moments, b.second_moments));
}

TEST_CASE("SHA-256 of the examples of FIPS 180-4", "[checkpoint]") {
  const auto hash = [](const std::string& text) {
    return sha256_of(std::as_bytes(std::span{text}));
  };
  CHECK(hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("a checkpoint comes back bit by bit under its own and under other layouts",
          "[checkpoint]") {
  const Saved saved;
  check_same(saved.resumed(saved.layout), saved.whole);
  sim::Layout other = saved.layout;
  other.zero_stage = 0;
  other.tensor_parallel = 1;
  other.pipeline_parallel = 2;
  check_same(saved.resumed(other), saved.whole);
  other.pipeline_parallel = 1;
  other.data_parallel = 4;
  other.zero_stage = 3;
  check_same(saved.resumed(other), saved.whole);
}

TEST_CASE("moments in bf16 come back bit by bit under other layouts, and as fp32", "[checkpoint]") {
  const Saved saved{{}, [](sim::Layout& layout) { layout.moment_dtype = sim::DType::bf16; }};
  check_same(saved.resumed(saved.layout), saved.whole);
  sim::Layout other = saved.layout;
  other.master_weights = !other.master_weights;
  other.tensor_parallel = 1;
  check_same(saved.resumed(other), saved.whole);
  other.moment_dtype = sim::DType::fp32;
  check_same(saved.resumed(other), saved.whole);
}

TEST_CASE("a checkpoint of a mixture comes back under any share of the experts",
          "[checkpoint][experts]") {
  Saved saved{{.llama = true, .experts = 4, .shared = true, .dense_first = true},
              [](sim::Layout& layout) {
                layout.sequence_parallel = true;
                layout.zero_stage = 1;
                layout.expert_parallel = 2;
                layout.expert_tensor_parallel = 2;
              }};
  check_same(saved.resumed(saved.layout), saved.whole);
  sim::Layout other = saved.layout;
  other.expert_parallel = 4;
  other.expert_tensor_parallel = 1;
  check_same(saved.resumed(other), saved.whole);
  other.data_parallel = 4;
  other.expert_parallel = 2;
  check_same(saved.resumed(other), saved.whole);
  other.tensor_parallel = other.data_parallel = other.expert_parallel = 1;
  other.sequence_parallel = false;
  other.pipeline_parallel = 2;
  other.zero_stage = 0;
  check_same(saved.resumed(other), saved.whole);
}

TEST_CASE("a run that is resumed under its own layout goes on as if it had not ended",
          "[checkpoint]") {
  Saved saved;
  saved.training.steps = 4;
  const TrainedModel straight =
      train_on_host(saved.model, saved.layout, saved.training, saved.corpus);
  const TrainedModel resumed = saved.resumed(saved.layout);
  check_same(resumed, straight);
  CHECK(resumed.losses == std::vector<double>(straight.losses.begin() + 2, straight.losses.end()));
}

TEST_CASE("a run that is resumed goes on in the middle of its learning-rate schedule",
          "[checkpoint]") {
  Saved saved{{.tied = true},
              {},
              {.peak = 1e-2,
               .warmup_steps = 2,
               .decay = sim::RateDecay::linear,
               .minimum = 1e-3,
               .decay_steps = 5}};
  saved.training.steps = 5;
  const TrainedModel straight =
      train_on_host(saved.model, saved.layout, saved.training, saved.corpus);
  check_same(saved.resumed(saved.layout), straight);
  saved.training.learning_rate = {.peak = 1e-2};
  CHECK(!same_bits(saved.resumed(saved.layout).weights, straight.weights));
}

TEST_CASE("blocks of a shard lie within their parameter, and their sums within 64 bits",
          "[checkpoint]") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<Parameter> parameters{{.name = "a", .rows = 2, .columns = 3}};
  const std::string file = sim::test::temporary_path("blocks.state").string();
  const auto refusal = [&](const std::vector<ShardBlock>& blocks) {
    const ShardHeader header{.blocks = static_cast<std::int64_t>(blocks.size())};
    const std::vector<float> values(3 * 6);
    std::ofstream out{file, std::ios::binary};
    out.write(reinterpret_cast<const char*>(&header), sizeof header);
    out.write(reinterpret_cast<const char*>(blocks.data()),
              static_cast<std::streamsize>(blocks.size() * sizeof(ShardBlock)));
    out.write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    out.close();
    try {
      return read_blocks(InputFile{file}, parameters).size() == blocks.size() ? "taken" : "other";
    } catch (const sim::InputError& error) {
      const std::string text = error.what();
      if (text.ends_with("a block leaves its parameter")) return "leaves";
      return text.ends_with("its blocks do not fit in it") ? "does not fit" : "other";
    }
  };
  const ShardBlock whole{.parameter = 0, .rows = 2, .columns = 3, .from = 0, .to = 6};
  CHECK(refusal({whole}) == std::string{"taken"});
  CHECK(refusal({whole, whole}) == std::string{"does not fit"});
  std::vector<ShardBlock> bad(9, whole);
  bad[0].row = huge;
  bad[1].rows = huge;
  bad[2].row = 1;
  bad[3].column = huge;
  bad[4].columns = huge;
  bad[5].from = -huge;
  bad[6].to = huge;
  bad[7].parameter = 1;
  bad[8].parameter = -1;
  for (const ShardBlock& block : bad)
    CHECK(refusal({block}) == std::string{"leaves"});
  files::remove(file);
}

TEST_CASE("checkpoints that are torn, changed or incomplete are refused by file", "[checkpoint]") {
  const Saved saved;
  SECTION("a shard that is short") {
    files::resize_file(saved.file("rank-00002.state"),
                       files::file_size(saved.file("rank-00002.state")) - 4);
    CHECK(saved.refusal().starts_with("rank-00002.state: this shard is torn: "));
  }
  SECTION("a shard with another bit") {
    std::fstream file{saved.file("rank-00001.state"),
                      std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(-1, std::ios::end);
    file.put('x');
    file.close();
    CHECK(saved.refusal() ==
          "rank-00001.state: this shard was changed: its SHA-256 is not the manifest's");
  }
  SECTION("a shard that is missing") {
    files::remove(saved.file("rank-00003.state"));
    CHECK(saved.refusal() == "rank-00003.state: cannot read this file: No such file or directory");
  }
  SECTION("a pipe in a file's place, which nobody would ever fill") {
    const std::string name = GENERATE("rank-00003.state", "manifest.json");
    files::remove(saved.file(name.c_str()));
    REQUIRE(mkfifo(saved.file(name.c_str()).c_str(), 0600) == 0);
    CHECK(saved.refusal() == name + ": cannot read this: it is no regular file");
  }
  SECTION("a manifest with another step") {
    std::ifstream in{saved.file("manifest.json")};
    std::string text{std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
    text.replace(text.find("\"step\": 2"), 9, "\"step\": 3");
    std::ofstream{saved.file("manifest.json")} << text;
    CHECK(saved.refusal() ==
          "manifest.json: the manifest was changed: its hash is not what it says");
  }
  SECTION("a manifest that is missing, as after a run that died while it wrote") {
    files::remove(saved.file("manifest.json"));
    CHECK(saved.refusal().ends_with(": there is no checkpoint here"));
  }
}

}  // namespace
}  // namespace real::test
