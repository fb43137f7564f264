#include "real/engine/tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

// Of the numbers that place samples, apart from those of weights (hashes of names).
constexpr std::uint64_t sample_stream = 0x73616d706c6573;  // "samples"

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw sim::InputError{sim::SourcePosition{path, 0, 0}, what};
}

}  // namespace

Corpus::Corpus(const std::string& path, const sim::Model& model, std::int64_t sequence_length)
    : path_{path}, sequence_length_{sequence_length} {
  std::ifstream in{path, std::ios::binary};
  if (!in) refuse(path, "cannot read this text");
  text_.assign(std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{});
  if (in.bad()) refuse(path, "cannot read this text to its end");
  if (size() <= sequence_length)
    refuse(path, fmt::format("{} bytes of text; a sample takes {} (sequence_length {} and the byte "
                             "behind it)",
                             size(), sequence_length + 1, sequence_length));
  for (std::size_t i = 0; i < text_.size(); ++i) {
    const auto token = static_cast<unsigned char>(text_[i]);
    if (token >= model.vocabulary)
      refuse(path, fmt::format("byte {} is {}, which is no token: the vocabulary of {} has {}; "
                               "allowed: 256 or more for any text, 128 for ASCII",
                               i, token, model.name, model.vocabulary));
  }
}

void Corpus::sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                    std::int32_t* to) const {
  const std::uint64_t drawn = sim::hash_combine(
      sim::hash_combine(sim::hash_combine(seed, sample_stream), static_cast<std::uint64_t>(step)),
      static_cast<std::uint64_t>(sample));
  const auto places = static_cast<std::uint64_t>(size() - sequence_length_);
  const auto first = static_cast<std::int64_t>(drawn % places);
  std::transform(text_.begin() + first, text_.begin() + first + sequence_length_ + 1, to,
                 [](char letter) { return static_cast<unsigned char>(letter); });
}

std::vector<std::int32_t> tokens_of_rank(const Corpus& corpus, const sim::Layout& layout,
                                         std::uint64_t seed, std::int64_t step, int data_rank) {
  const std::int64_t samples = layout.micro_batches() * layout.micro_batch;
  const std::int64_t width = layout.sequence_length + 1;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(samples * width));
  for (std::int64_t i = 0; i < samples; ++i)
    corpus.sample(seed, step, data_rank * samples + i, tokens.data() + i * width);
  return tokens;
}

}  // namespace real
