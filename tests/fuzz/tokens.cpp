// Files of training data: any bytes are an InputError or samples whose ids are all of the
// vocabulary. The bytes stand under a name of a text and, before and behind a line "--index--", as
// the two files of Megatron-LM's datasets.
#include "real/engine/data/tokens.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "real/engine/data/token_ids.hpp"
#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/fuzz/support/scratch_file.hpp"

namespace {

using fuzz::require;

constexpr std::int64_t vocabulary = 1000;
constexpr std::int64_t sequence_length = 7;

void check(const std::string& path) {
  try {
    const real::TokenFile tokens = real::find_tokens(path);
    require(tokens.count >= 0 && tokens.first >= 0);
    require(!tokens.vocabulary || *tokens.largest < *tokens.vocabulary);
    const std::int64_t largest = real::largest_of(tokens);
    require(!tokens.largest || largest <= *tokens.largest);
    sim::Model model;
    model.vocabulary = vocabulary;
    const real::Corpus corpus{path, model, sequence_length};
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      std::vector<std::int32_t> ids(sequence_length + 1);
      corpus.sample(1, 0, sample, ids.data());
      require(std::all_of(ids.begin(), ids.end(),
                          [](std::int32_t id) { return id >= 0 && id < vocabulary; }));
    }
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
}

// FILE.bin and FILE.idx of this process.
struct Pair {
  fuzz::ScratchFile name;
  std::string data = name.path() + ".bin", index = name.path() + ".idx";
  ~Pair() {
    unlink(data.c_str());
    unlink(index.c_str());
  }
};

void write(const std::string& path, std::string_view text) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  static const Pair pair;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check(file.write(text));
  constexpr std::string_view mark = "\n--index--\n";
  const std::size_t cut = text.find(mark);
  write(pair.data, text.substr(0, cut));
  write(pair.index, cut == std::string_view::npos ? text : text.substr(cut + mark.size()));
  check(pair.data);
  check(pair.index);
  return 0;
}
