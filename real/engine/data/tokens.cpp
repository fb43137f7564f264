#include "real/engine/data/tokens.hpp"

#include <fmt/format.h>

#include "real/engine/data/input_file.hpp"
#include "real/engine/data/token_ids.hpp"
#include "real/engine/kernels.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

// The stream of random numbers that place samples, apart from those of weights (hashes of names).
constexpr std::uint64_t sample_stream = 0x73616d706c6573;  // "samples"

}  // namespace

Corpus::Corpus(const std::string& path, const sim::Model& model, std::int64_t sequence_length)
    : tokens_{find_tokens(path)},
      file_{tokens_.data},
      model_{model.name},
      vocabulary_{model.vocabulary},
      sequence_length_{sequence_length} {
  check_header(sequence_length);
  if (tokens_.format == DataFormat::text && vocabulary_ < 256) check_bytes();
}

void Corpus::check_header(std::int64_t sequence_length) const {
  const bool text = tokens_.format == DataFormat::text;
  if (size() <= sequence_length)
    refuse(path(), fmt::format("{} {}; a sample takes {} (sequence_length {} and the {} behind it)",
                               size(), text ? "bytes of text" : "tokens", sequence_length + 1,
                               sequence_length, text ? "byte" : "token"));
  if (tokens_.largest && *tokens_.largest >= vocabulary_)
    refuse(
        path(),
        fmt::format("the largest id is {}, and the vocabulary of {} has {}: take the tokenizer of "
                    "that model, or set the model's vocabulary to {} or more",
                    *tokens_.largest, model_, vocabulary_, *tokens_.largest + 1));
}

void Corpus::check_bytes() const {
  std::vector<std::uint32_t> bytes(1 << 16);
  for (std::int64_t at = 0; at < size(); at += static_cast<std::int64_t>(bytes.size())) {
    if (size() - at < static_cast<std::int64_t>(bytes.size()))
      bytes.resize(static_cast<std::size_t>(size() - at));
    read_ids(file_, tokens_, at, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] >= vocabulary_) refuse_id(at + static_cast<std::int64_t>(i), bytes[i]);
  }
}

void Corpus::refuse_id(std::int64_t index, std::int64_t id) const {
  if (tokens_.format == DataFormat::text)
    refuse(path(), fmt::format("byte {} is {}, which is no token: the vocabulary of {} has {}; "
                               "allowed: 256 or more for any text, 128 for ASCII",
                               index, id, model_, vocabulary_));
  refuse(path(), fmt::format("id {} is {}, which is no token: the vocabulary of {} has {}; "
                             "`stepcast tokens show --check` reads all ids",
                             index, id, model_, vocabulary_));
}

std::uint64_t draw_of_sample(std::uint64_t seed, std::int64_t step, std::int64_t sample) {
  return sim::hash_combine(
      sim::hash_combine(sim::hash_combine(seed, sample_stream), static_cast<std::uint64_t>(step)),
      static_cast<std::uint64_t>(sample));
}

void Corpus::sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                    std::int32_t* to) const {
  const std::uint64_t drawn = draw_of_sample(seed, step, sample);
  const auto places = static_cast<std::uint64_t>(size() - sequence_length_);
  const auto first = static_cast<std::int64_t>(drawn % places);
  std::vector<std::uint32_t> ids(static_cast<std::size_t>(sequence_length_ + 1));
  read_ids(file_, tokens_, first, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t index = first + static_cast<std::int64_t>(i);
    const std::string problem = header_problem(tokens_, index, ids[i]);
    if (!problem.empty()) refuse(path(), problem);
    if (ids[i] >= vocabulary_) refuse_id(index, ids[i]);
    to[i] = static_cast<std::int32_t>(ids[i]);
  }
}

TokenRows token_rows(const sim::Layout& layout) {
  const std::int64_t rows = layout.context_parallel > 1 ? 2 : 1;
  const std::int64_t samples = layout.sequence_length / layout.attended_length();
  return {.samples = samples,
          .of_sequence = samples * rows,
          .tokens = layout.attended_length() / layout.context_parallel / rows};
}

std::vector<std::int32_t> tokens_of_rank(const Samples& from, const sim::Layout& layout,
                                         std::uint64_t seed, std::int64_t step, int data_rank,
                                         int context_rank) {
  const TokenRows rows = token_rows(layout);
  const std::int64_t of_batch = layout.micro_batch * rows.samples;
  const std::int64_t samples = layout.batches_of(data_rank) * of_batch;
  const std::int64_t before = layout.batches_before(data_rank) * of_batch;
  const kernels::ContextShare share{layout.context_parallel, context_rank};
  std::vector<std::int32_t> whole(static_cast<std::size_t>(layout.attended_length() + 1));
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < samples; ++i) {
    from.sample(seed, step, before + i, whole.data());
    for (std::int64_t at = 0; at < rows.held(); at += rows.tokens) {
      const auto first = whole.begin() + share.position(at, rows.held());
      tokens.insert(tokens.end(), first, first + rows.width());
    }
  }
  return tokens;
}

}  // namespace real
