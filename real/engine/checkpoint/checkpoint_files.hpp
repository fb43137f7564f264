// The files of a checkpoint as bytes and text. Room-internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "real/engine/checkpoint/sha256.hpp"
#include "real/engine/data/input_file.hpp"
#include "real/engine/parameters.hpp"
#include "sim/base/complete_file.hpp"

namespace real {

// Elements [from, to) of a rectangle of a parameter; its weights, then both moments, follow each
// other in the shard behind the list of all blocks.
struct ShardBlock {
  std::int64_t parameter = 0, rows = 0, columns = 0, row = 0, column = 0, from = 0, to = 0;
  std::int64_t elements() const { return to - from; }
};

struct ShardHeader {
  static constexpr std::uint64_t magic = 0x3164726168736373;  // "scshard1" in little-endian order
  std::uint64_t mark = magic;
  std::int64_t blocks = 0;
};

// read_blocks reads the list at the head of a shard. Throws InputError where it is no shard, or one
// of its blocks does not lie within the file and within its parameter.
std::vector<ShardBlock> read_blocks(const InputFile& shard, std::span<const Parameter> parameters);

struct ShardFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  std::string model;
  std::int64_t step = 0;
  std::uint64_t seed = 0;
  struct Shape {
    std::string name;
    std::int64_t rows = 0, columns = 0;
  };
  std::vector<Shape> parameters;
  std::vector<ShardFile> shards;
};

std::string to_text(const Manifest& manifest);
// Throw InputError.
Manifest read_manifest(const std::string& path);
Manifest parse_manifest(std::string_view text, const std::string& path);
// A manifest's text up to the comma before its last entry, with that: the hash of all before it.
std::string sealed(const std::string& text);

// A file that appears under its name when it is complete and on disk, with its size and hash.
// Throws std::runtime_error naming it.
class DurableFile {
 public:
  explicit DurableFile(const std::string& path);
  void write(std::span<const std::byte> data);
  // Size and hash of all that was written.
  ShardFile commit();

 private:
  std::string name_;
  sim::CompleteFile file_;
  std::int64_t bytes_ = 0;
  Sha256 hash_;
};

std::string shard_name(int rank);
std::string step_folder(const std::string& folder, std::int64_t step);
// `folder` itself or the latest step in it. Throws InputError where there is none.
std::string find_checkpoint(const std::string& folder);

}  // namespace real
