#include "real/engine/data/token_ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "real/engine/data/input_file.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

constexpr std::int64_t piece = 1 << 18;  // ids read at once
constexpr std::int64_t most_of_16_bits = 65536;

// visit(index of the first, ids), in order.
template <class Visit>
void for_each_piece(const TokenFile& tokens, Visit visit) {
  const InputFile file{tokens.data};
  std::vector<std::uint32_t> ids;
  for (std::int64_t at = 0; at < tokens.count; at += piece) {
    ids.resize(static_cast<std::size_t>(std::min(piece, tokens.count - at)));
    read_ids(file, tokens, at, ids);
    visit(at, ids);
  }
}

template <class Id>
void widen(std::span<const std::byte> from, std::span<std::uint32_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Id id;
    std::memcpy(&id, from.data() + i * sizeof id, sizeof id);
    to[i] = id;
  }
}

template <class Id>
void write_as(std::span<const std::uint32_t> ids, DurableFile& file) {
  std::vector<Id> narrow(ids.size());
  std::transform(ids.begin(), ids.end(), narrow.begin(),
                 [](std::uint32_t id) { return static_cast<Id>(id); });
  file.write(std::as_bytes(std::span{narrow}));
}

}  // namespace

void read_ids(const InputFile& file, const TokenFile& tokens, std::int64_t first,
              std::span<std::uint32_t> to) {
  const std::int64_t offset = tokens.first + first * tokens.width;
  if (tokens.width == 4) return file.read(offset, std::as_writable_bytes(to));
  std::vector<std::byte> bytes(to.size() * static_cast<std::size_t>(tokens.width));
  file.read(offset, bytes);
  if (tokens.width == 2) return widen<std::uint16_t>(bytes, to);
  widen<std::uint8_t>(bytes, to);
}

std::string header_problem(const TokenFile& tokens, std::int64_t index, std::int64_t id) {
  if (!tokens.largest || id <= *tokens.largest) return "";
  return fmt::format(
      "id {} is {}, and the header says that {} is the largest: a wrong header, or ids "
      "of another byte order or width",
      index, id, *tokens.largest);
}

std::int64_t largest_of(const TokenFile& tokens) {
  std::int64_t largest = 0;
  for_each_piece(tokens, [&](std::int64_t first, const std::vector<std::uint32_t>& ids) {
    const auto top = std::max_element(ids.begin(), ids.end());
    const std::string problem = header_problem(tokens, first + (top - ids.begin()), *top);
    if (!problem.empty()) refuse(tokens.data, problem);
    largest = std::max<std::int64_t>(largest, *top);
  });
  return largest;
}

WrittenTokens write_tokens(const TokenFile& from, std::int64_t vocabulary, const std::string& to) {
  std::error_code ignored;
  if (std::filesystem::equivalent(from.data, to, ignored))
    refuse(to, "this is the file to convert; write the new one under another name");
  const std::int64_t largest = largest_of(from);
  if (largest >= vocabulary)
    refuse(from.data, fmt::format("the largest id is {}; the vocabulary has {}, ids 0 to {}",
                                  largest, vocabulary, vocabulary - 1));
  const TokenFile written{.format = DataFormat::stepcast,
                          .data = to,
                          .width = vocabulary <= most_of_16_bits ? 2 : 4,
                          .first = token_header_bytes,
                          .count = from.count,
                          .vocabulary = vocabulary,
                          .largest = largest};
  DurableFile file{to};
  file.write(header_of(written));
  for_each_piece(from, [&](std::int64_t, const std::vector<std::uint32_t>& ids) {
    if (written.width == 2)
      write_as<std::uint16_t>(ids, file);
    else
      write_as<std::uint32_t>(ids, file);
  });
  return {written, file.commit().sha256};
}

}  // namespace real
