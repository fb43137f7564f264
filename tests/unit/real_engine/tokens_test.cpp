// A text as samples: whose they are, and that every layout sees the same.
#include "real/engine/data/tokens.hpp"

#include <algorithm>
#include <set>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/property/support.hpp"

namespace real::test {
namespace {

sim::Model model_of(std::int64_t vocabulary) {
  sim::Model model;
  model.name = "tiny";
  model.vocabulary = vocabulary;
  return model;
}

// No two bytes alike, so that a token tells where it comes from.
std::string alphabet() {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += static_cast<char>(i);
  return text;
}

sim::Layout layout_of(int data, std::int64_t micro_batch) {
  sim::Layout layout;
  layout.data_parallel = data;
  layout.sequence_length = 7;
  layout.global_batch = 16;
  layout.micro_batch = micro_batch;
  return layout;
}

std::string refusal(const std::string& path, std::int64_t vocabulary, std::int64_t sequence) {
  try {
    const Corpus corpus{path, model_of(vocabulary), sequence};
  } catch (const sim::InputError& error) {
    CHECK(error.problems().front().where.file == path);
    return error.problems().front().what;
  }
  return "taken";
}

}  // namespace

TEST_CASE("a sample is neighbours in the text", "[tokens]") {
  const sim::test::TemporaryFile file{alphabet(), ".txt"};
  const Corpus corpus{file.path(), model_of(100), 7};
  std::set<std::int32_t> starts;
  for (std::int64_t sample = 0; sample < 1000; ++sample) {
    std::vector<std::int32_t> tokens(8, -1);
    corpus.sample(1, sample / 10, sample % 10, tokens.data());
    for (std::size_t i = 1; i < tokens.size(); ++i)
      CHECK(tokens[i] == tokens[i - 1] + 1);
    starts.insert(tokens.front());
  }
  // Places 0 .. 92 of 100 bytes: the last one ends at the text's end. A thousand draws miss one of
  // 93 with probability (92/93)^1000, 0.002%; these, of a fixed seed, miss none.
  CHECK(*starts.begin() == 0);
  CHECK(*starts.rbegin() == 92);
  CHECK(starts.size() == 93);
}

TEST_CASE("every layout sees the same samples in a step", "[tokens]") {
  const sim::test::TemporaryFile file{alphabet(), ".txt"};
  const Corpus corpus{file.path(), model_of(100), 7};
  const auto all_of = [&](int data, std::int64_t micro_batch, std::uint64_t seed,
                          std::int64_t step) {
    std::vector<std::int32_t> all;
    for (int rank = 0; rank < data; ++rank) {
      const auto own = tokens_of_rank(corpus, layout_of(data, micro_batch), seed, step, rank);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  };
  const auto reference = all_of(1, 16, 5, 3);
  CHECK(reference.size() == 16 * 8);
  CHECK(all_of(1, 2, 5, 3) == reference);
  CHECK(all_of(4, 2, 5, 3) == reference);
  CHECK(all_of(16, 1, 5, 3) == reference);
  CHECK(all_of(1, 16, 6, 3) != reference);
  CHECK(all_of(1, 16, 5, 4) != reference);
}

TEST_CASE("bytes above 127 are tokens too", "[tokens]") {
  const sim::test::TemporaryFile file{"\xff\xfe\xfd", ".txt"};
  const Corpus corpus{file.path(), model_of(256), 2};
  std::vector<std::int32_t> tokens(3);
  corpus.sample(1, 0, 0, tokens.data());
  CHECK(tokens == std::vector<std::int32_t>{255, 254, 253});
}

TEST_CASE("texts that cannot be trained on are refused", "[tokens]") {
  const sim::test::TemporaryFile file{alphabet(), ".txt"};
  CHECK(refusal(file.path(), 100, 99) == "taken");
  CHECK(refusal(file.path(), 100, 100) ==
        "100 bytes of text; a sample takes 101 (sequence_length 100 and the byte behind it)");
  CHECK(refusal(file.path(), 64, 8) ==
        "byte 64 is 64, which is no token: the vocabulary of tiny has 64; allowed: 256 or more for "
        "any text, 128 for ASCII");
  CHECK(refusal(file.path() + ".missing", 256, 8) ==
        "cannot read this file: No such file or directory");
}

}  // namespace real::test
