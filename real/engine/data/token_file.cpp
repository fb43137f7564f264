#include "real/engine/data/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <vector>

#include "real/engine/data/input_file.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

static_assert(std::endian::native == std::endian::little, "headers and ids are read as they lie");

constexpr std::int64_t largest_id = std::numeric_limits<std::int32_t>::max();  // of any vocabulary
constexpr std::int64_t sixteen_bits = std::numeric_limits<std::uint16_t>::max();
constexpr const char* page = "real/engine/TOKENS.md says how to make one";

// Beginning is the beginning of a file, by which its format is told.
struct Beginning {
  explicit Beginning(const InputFile& file)
      : path{file.path()},
        bytes(static_cast<std::size_t>(std::min<std::int64_t>(file.bytes(), 1024))),
        file_bytes{file.bytes()} {
    file.read(0, bytes);
  }
  bool starts_with(std::string_view magic) const {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  }
  // REQUIRES: offset + sizeof(T) <= bytes.size().
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }

  const std::string& path;
  std::vector<std::byte> bytes;
  std::int64_t file_bytes;
};

constexpr std::uint32_t swapped(std::uint32_t x) {
  return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

[[noreturn]] void refuse_byte_order(const std::string& path) {
  refuse(
      path,
      "the header is big-endian; write it and the ids little-endian (NumPy: dtype '<u2', '<u4')");
}

// The file has the header and `count` ids of `width` bytes, and nothing else.
void check_length(const Beginning& file, std::uint64_t count, int width, std::int64_t header) {
  const auto ids = static_cast<std::uint64_t>(file.file_bytes - header);
  const auto bytes = static_cast<std::uint64_t>(width);
  if (count == ids / bytes && ids % bytes == 0) return;
  refuse(file.path,
         fmt::format("{}: the header says {} ids of {} bits; behind it are {} bytes, "
                     "which are {}{}",
                     count > ids / bytes ? "truncated" : "longer than it says", count, 8 * width,
                     ids, ids / bytes, ids % bytes == 0 ? "" : " and a part of one"));
}

TokenFile read_stepcast(const Beginning& file) {
  if (file.bytes.size() < token_header_bytes)
    refuse(file.path, fmt::format("truncated: the header of a token file has {} bytes, this has {}",
                                  token_header_bytes, file.file_bytes));
  const auto version = file.at<std::uint32_t>(8);
  const auto bits = file.at<std::uint32_t>(12);
  const auto count = file.at<std::uint64_t>(16);
  const auto vocabulary = std::int64_t{file.at<std::uint32_t>(24)};
  const auto largest = std::int64_t{file.at<std::uint32_t>(28)};
  if (version == swapped(1)) refuse_byte_order(file.path);
  if (version != 1)
    refuse(file.path, fmt::format("a token file of version {}; allowed: 1", version));
  if (bits != 16 && bits != 32)
    refuse(file.path, fmt::format("the header says ids of {} bits; allowed: 16, 32", bits));
  if (vocabulary < 1 || vocabulary > largest_id)
    refuse(file.path, fmt::format("the header says a vocabulary of {}; allowed: 1 to {}",
                                  vocabulary, largest_id));
  if (largest >= vocabulary || (bits == 16 && largest > sixteen_bits))
    refuse(file.path,
           fmt::format("the header contradicts itself: {} is the largest id, of {} bits, in a "
                       "vocabulary of {}",
                       largest, bits, vocabulary));
  const bool rest = std::any_of(file.bytes.begin() + 32, file.bytes.begin() + token_header_bytes,
                                [](std::byte byte) { return byte != std::byte{}; });
  if (rest)
    refuse(file.path, "bytes 32 to 63 of the header are not 0, and version 1 has nothing there");
  const int width = static_cast<int>(bits) / 8;
  check_length(file, count, width, token_header_bytes);
  return {.format = DataFormat::stepcast,
          .data = file.path,
          .width = width,
          .first = token_header_bytes,
          .count = static_cast<std::int64_t>(count),
          .vocabulary = vocabulary,
          .largest = largest};
}

// karpathy/llm.c dev/data/data_common.py at 16635d41, HEADERS_INFO and write_datafile: 256 int32
// (magic, version, number of tokens, zeros), then the tokens.
struct LlmCKind {
  std::uint32_t magic, version;
  int width;
};
constexpr std::array llm_c_kinds{LlmCKind{20240520, 1, 2}, LlmCKind{20240801, 7, 4}};
constexpr std::int64_t llm_c_header_bytes = 1024;

std::optional<TokenFile> read_llm_c(const Beginning& file) {
  if (file.bytes.size() < sizeof(std::uint32_t)) return std::nullopt;
  const auto magic = file.at<std::uint32_t>(0);
  for (const LlmCKind& kind : llm_c_kinds) {
    if (magic == swapped(kind.magic)) refuse_byte_order(file.path);
    if (magic != kind.magic) continue;
    if (file.file_bytes < llm_c_header_bytes)
      refuse(file.path, fmt::format("truncated: llm.c's header has {} bytes, this file has {}",
                                    llm_c_header_bytes, file.file_bytes));
    if (const auto version = file.at<std::uint32_t>(4); version != kind.version)
      refuse(file.path, fmt::format("llm.c's token file {} of version {}; allowed: {}", kind.magic,
                                    version, kind.version));
    const auto count = file.at<std::uint32_t>(8);
    check_length(file, count, kind.width, llm_c_header_bytes);
    return TokenFile{.format = DataFormat::llm_c,
                     .data = file.path,
                     .width = kind.width,
                     .first = llm_c_header_bytes,
                     .count = count,
                     .vocabulary = {},
                     .largest = {}};
  }
  return std::nullopt;
}

// NVIDIA/Megatron-LM megatron/core/datasets/indexed_dataset.py at d98e8a64, _IndexWriter: magic,
// version (uint64), kind of number (uint8), sequences and documents (uint64), then int32 lengths
// and int64 places of the sequences, and int64 document ends; the .bin is one sequence after
// another, so any place of it is a place of the text.
constexpr std::string_view megatron_magic{"MMIDIDX\0\0", 9};
constexpr std::int64_t megatron_header_bytes = 34;

int megatron_width(const std::string& path, int kind) {
  constexpr std::array names{"uint8", "int8",    "int16",   "int32",
                             "int64", "float64", "float32", "uint16"};
  if (kind == 8) return 2;
  if (kind == 4) return 4;
  const bool known = kind >= 1 && kind <= static_cast<int>(names.size());
  refuse(
      path,
      fmt::format("the index says numbers of kind {}{}; allowed: 8 (uint16), 4 (int32)", kind,
                  known ? fmt::format(" ({})", names.at(static_cast<std::size_t>(kind - 1))) : ""));
}

template <class T>
T value_at(const InputFile& file, std::int64_t offset) {
  T value{};
  file.read(offset, std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

// REQUIRES: the file starts with megatron_magic.
TokenFile read_megatron(const InputFile& index, const Beginning& begin, const std::string& data) {
  const std::string& path = index.path();
  if (begin.file_bytes < megatron_header_bytes) refuse(path, "truncated: the index has no header");
  if (const auto version = begin.at<std::uint64_t>(9); version != 1)
    refuse(path, fmt::format("an index of version {}; allowed: 1", version));
  const int width = megatron_width(path, std::to_integer<int>(begin.bytes[17]));
  const auto sequences = begin.at<std::uint64_t>(18);
  const auto documents = begin.at<std::uint64_t>(26);
  const auto room = static_cast<std::uint64_t>(begin.file_bytes - megatron_header_bytes);
  // Behind them, a byte for each sequence of a multimodal dataset.
  if (sequences > room / 12 || documents > (room - 12 * sequences) / 8)
    refuse(path,
           fmt::format("truncated: the index says {} sequences and {} documents; the file has "
                       "{} bytes",
                       sequences, documents, begin.file_bytes));
  const InputFile ids{data};
  std::int64_t end = 0;
  if (sequences > 0) {
    const auto count = static_cast<std::int64_t>(sequences);
    const auto length = value_at<std::int32_t>(index, megatron_header_bytes + 4 * (count - 1));
    const auto place =
        value_at<std::int64_t>(index, megatron_header_bytes + 4 * count + 8 * (count - 1));
    // Out of range: no .bin is as long, so the index is refused below.
    if (length >= 0 && place >= 0 && place <= ids.bytes())
      end = place + std::int64_t{length} * width;
    else
      end = -1;
  }
  if (end != ids.bytes())
    refuse(data, fmt::format("{} bytes; its index {} says {}", ids.bytes(), path,
                             end < 0 ? std::string{"what no file can have"} : std::to_string(end)));
  return {.format = DataFormat::megatron,
          .data = data,
          .width = width,
          .first = 0,
          .count = ids.bytes() / width,
          .vocabulary = {},
          .largest = {}};
}

// Foreign is a format that would train as bytes, and is no text.
struct Foreign {
  std::string_view magic, what;
};
using namespace std::string_view_literals;
constexpr std::array foreign_files{
    Foreign{"\x1f\x8b"sv, "compressed (gzip); unpack it first"},
    Foreign{"\x28\xb5\x2f\xfd"sv, "compressed (Zstandard); unpack it first"},
    Foreign{"\xfd"
            "7zXZ\0"sv,
            "compressed (xz); unpack it first"},
    Foreign{"PK\x03\x04"sv, "a ZIP archive (so are .npz and .pt); take its text or ids out first"},
    Foreign{"\x93NUMPY"sv, "a NumPy array; write its ids behind the header of a token file"},
    Foreign{"PAR1"sv, "a Parquet file; tokenize its text into a token file"},
    Foreign{"ARROW1\0\0"sv, "an Arrow file; tokenize its text into a token file"},
    Foreign{"\x89HDF\r\n\x1a\n"sv, "an HDF5 file; write its ids behind the header of a token file"},
};

bool ends_with(const std::string& path, std::string_view extension) {
  return path.size() > extension.size() && path.ends_with(extension);
}

std::string with_extension(const std::string& path, std::string_view extension) {
  return path.substr(0, path.size() - extension.size()) + std::string{extension};
}

TokenFile read_text(const Beginning& file) {
  for (const Foreign& foreign : foreign_files)
    if (file.starts_with(foreign.magic))
      refuse(file.path, fmt::format("this file is {}: {}", foreign.what, page));
  return {.format = DataFormat::text,
          .data = file.path,
          .width = 1,
          .first = 0,
          .count = file.file_bytes,
          .vocabulary = {},
          .largest = {}};
}

// A name in .bin without a header of its own: with Megatron-LM's index, or refused.
TokenFile read_bare_bin(const std::string& path) {
  const std::string index_path = with_extension(path, ".idx");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(index_path, ignored)) {
    const InputFile index{index_path};
    const Beginning begin{index};
    if (begin.starts_with(megatron_magic)) return read_megatron(index, begin, path);
  }
  refuse(path, fmt::format("ids of unknown width: no header of Stepcast or llm.c, and no index of "
                           "Megatron-LM ({}) beside it; convert it: stepcast tokens convert {} "
                           "FILE.tokens --from uint16 --vocabulary N (nanoGPT's is uint16; others "
                           "uint32; bytes: a text)",
                           index_path, path));
}

}  // namespace

TokenFile find_tokens(const std::string& path) {
  const InputFile file{path};
  const Beginning begin{file};
  if (begin.starts_with(token_magic)) return read_stepcast(begin);
  if (const std::optional<TokenFile> found = read_llm_c(begin)) return *found;
  if (begin.starts_with(megatron_magic)) {
    if (!ends_with(path, ".idx"))
      refuse(path,
             "an index of Megatron-LM under another name than .idx; its ids are in the .bin "
             "of the same name");
    return read_megatron(file, begin, with_extension(path, ".bin"));
  }
  if (ends_with(path, ".bin")) return read_bare_bin(path);
  return read_text(begin);
}

TokenFile raw_tokens(const std::string& path, int width) {
  const InputFile file{path};
  if (file.bytes() % width != 0)
    refuse(path,
           fmt::format("{} bytes are no whole number of ids of {} bits", file.bytes(), 8 * width));
  return {.format = width == 1 ? DataFormat::text : DataFormat::raw,
          .data = path,
          .width = width,
          .first = 0,
          .count = file.bytes() / width,
          .vocabulary = {},
          .largest = {}};
}

std::optional<std::int64_t> vocabulary_of(const TokenFile& tokens) {
  if (!tokens.vocabulary && tokens.format == DataFormat::text) return 256;
  return tokens.vocabulary;
}

TokenHeader header_of(const TokenFile& tokens) {
  TokenHeader header{};
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(header.data() + offset, &value, sizeof value);
  };
  std::memcpy(header.data(), token_magic.data(), token_magic.size());
  put(8, std::uint32_t{1});
  put(12, static_cast<std::uint32_t>(8 * tokens.width));
  put(16, static_cast<std::uint64_t>(tokens.count));
  put(24, static_cast<std::uint32_t>(tokens.vocabulary.value()));
  put(28, static_cast<std::uint32_t>(tokens.largest.value()));
  return header;
}

}  // namespace real
