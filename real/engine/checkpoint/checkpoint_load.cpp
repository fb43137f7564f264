#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "real/engine/checkpoint/checkpoint.hpp"
#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "real/engine/data/input_file.hpp"
#include "real/engine/rank_state.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

void check_model(const std::string& path, const Manifest& manifest, const CheckpointRank& rank) {
  const auto& wanted = rank.parameters;
  for (std::size_t i = 0; i < std::max(wanted.size(), manifest.parameters.size()); ++i) {
    if (i >= wanted.size())
      refuse(path, fmt::format("a checkpoint of {}: {} is no parameter of {}", manifest.model,
                               manifest.parameters[i].name, rank.program.model->name));
    const Parameter& parameter = wanted[i];
    const bool there = i < manifest.parameters.size();
    if (there && manifest.parameters[i].name == parameter.name &&
        manifest.parameters[i].rows == parameter.rows &&
        manifest.parameters[i].columns == parameter.columns)
      continue;
    refuse(
        path,
        fmt::format("a checkpoint of {}: {} of {} is {} x {}, here it is {}", manifest.model,
                    parameter.name, rank.program.model->name, parameter.rows, parameter.columns,
                    there ? fmt::format("{} of {} x {}", manifest.parameters[i].name,
                                        manifest.parameters[i].rows, manifest.parameters[i].columns)
                          : "missing"));
  }
}

// visit(element of the piece, element of the parameter, count) for what of elements [first, last)
// of the parameter lies in the piece.
template <class Visit>
void for_each_common(const Piece& piece, std::int64_t width, std::int64_t first, std::int64_t last,
                     Visit visit) {
  if (first >= last) return;
  const std::int64_t last_row = std::min(piece.row + piece.rows - 1, (last - 1) / width);
  for (std::int64_t row = std::max(piece.row, first / width); row <= last_row; ++row) {
    const std::int64_t from = std::max(first, row * width + piece.column);
    const std::int64_t to = std::min(last, row * width + piece.column + piece.columns);
    if (from >= to) continue;
    visit((row - piece.row) * piece.columns + from - row * width - piece.column, from, to - from);
  }
}

// A shard in memory, of the size that the manifest states.
class Shard {
 public:
  Shard(const std::string& path, const ShardFile& stated, std::span<const Parameter> parameters)
      : in_{path}, stated_{stated} {
    if (in_.bytes() != stated.bytes)
      refuse(path, fmt::format("this shard is torn: {} bytes, the manifest says {}", in_.bytes(),
                               stated.bytes));
    blocks_ = read_blocks(in_, parameters);
  }

  const std::vector<ShardBlock>& blocks() const { return blocks_; }

  // Throws InputError if it is not what was written.
  void read_data() {
    data_.resize(static_cast<std::size_t>(stated_.bytes));
    in_.read(0, data_);
    if (sha256_of(data_) != stated_.sha256)
      refuse(in_.path(), "this shard was changed: its SHA-256 is not the manifest's");
  }
  // Values of the block that begins at `offset` elements of the data.
  const float* values(std::int64_t offset) const {
    const std::size_t start = sizeof(ShardHeader) + blocks_.size() * sizeof(ShardBlock);
    return reinterpret_cast<const float*>(data_.data() + start) + offset;
  }

 private:
  InputFile in_;
  ShardFile stated_;
  std::vector<ShardBlock> blocks_;
  std::vector<std::byte> data_;
};

// Loader puts together a rank's part of a checkpoint from all shards.
class Loader {
 public:
  explicit Loader(const CheckpointRank& rank) : rank_{rank}, of_parameter_(rank.parameters.size()) {
    for (const Piece& piece : pieces_of(rank.program, rank.parameters)) {
      of_parameter_[piece.parameter].push_back(piece);
      missing_ += piece.elements();
    }
    for (const BoundBucket& bucket : rank.program.buckets) {
      weights_.emplace_back(static_cast<std::size_t>(bucket.padded));
      for (auto& moments : moments_)
        moments.emplace_back(static_cast<std::size_t>(bucket.owned));
    }
  }

  bool needs(const Shard& shard) const {
    return std::any_of(shard.blocks().begin(), shard.blocks().end(), [&](const ShardBlock& block) {
      return !of_parameter_[static_cast<std::size_t>(block.parameter)].empty();
    });
  }

  void take(const Shard& shard) {
    std::int64_t offset = 0;
    for (const ShardBlock& block : shard.blocks()) {
      take_block(shard, block, offset);
      offset += 3 * block.elements();
    }
  }

  // Elements of this rank's parameters that no shard had.
  std::int64_t missing() const { return missing_; }

  void write() {
    write_weights(rank_.program, rank_.backend,
                  [&](std::uint32_t bucket, std::int64_t first, std::span<float> values) {
                    std::copy_n(weights_[bucket].begin() + first, values.size(), values.begin());
                  });
    for (std::uint32_t b = 0; b < rank_.program.buckets.size(); ++b) {
      write_moments(rank_.program, rank_.backend, b, StateKind::first_moment, 0, moments_[0][b]);
      write_moments(rank_.program, rank_.backend, b, StateKind::second_moment, 0, moments_[1][b]);
    }
  }

 private:
  void take_block(const Shard& shard, const ShardBlock& block, std::int64_t offset) {
    const auto p = static_cast<std::size_t>(block.parameter);
    const Parameter& parameter = rank_.parameters[p];
    const Piece rectangle{.parameter = static_cast<std::uint32_t>(p),
                          .rows = block.rows,
                          .columns = block.columns,
                          .row = block.row,
                          .column = block.column};
    for_each_run(rectangle, parameter, block.from, block.to,
                 [&](std::int64_t at, std::int64_t element, std::int64_t count) {
                   for (const Piece& piece : of_parameter_[p]) {
                     for_each_common(piece, parameter.columns, element, element + count,
                                     [&](std::int64_t to, std::int64_t from, std::int64_t length) {
                                       const std::int64_t source = at - block.from + from - element;
                                       put(piece, to, shard.values(offset + source),
                                           block.elements(), length);
                                     });
                   }
                 });
  }

  // `count` values for the elements of a piece from `at` on; moments lie `stride` further on.
  void put(const Piece& piece, std::int64_t at, const float* values, std::int64_t stride,
           std::int64_t count) {
    const BoundBucket& bucket = rank_.program.buckets[piece.bucket];
    const std::int64_t first = piece.first + at;
    std::copy_n(values, count, weights_[piece.bucket].begin() + first);
    missing_ -= count;
    const std::int64_t from = std::max(first, bucket.owned_first);
    const std::int64_t to = std::min(first + count, bucket.owned_first + bucket.owned);
    if (from >= to) return;
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      std::copy_n(values + (static_cast<std::int64_t>(m) + 1) * stride + from - first, to - from,
                  moments_[m][piece.bucket].begin() + (from - bucket.owned_first));
    }
  }

  const CheckpointRank& rank_;
  std::vector<std::vector<Piece>> of_parameter_;
  std::vector<std::vector<float>> weights_;  // of whole buckets
  std::array<std::vector<std::vector<float>>, 2> moments_;
  std::int64_t missing_ = 0;
};

}  // namespace

std::int64_t load_checkpoint(const std::string& folder, const CheckpointRank& rank) {
  // Rank 0 first: what is wrong for all is said once.
  const bool is_first = rank.control.rank() == 0;
  if (!is_first) rank.control.barrier();
  const std::filesystem::path place{find_checkpoint(folder)};
  const std::string manifest_path = (place / "manifest.json").string();
  const Manifest manifest = read_manifest(manifest_path);
  check_model(manifest_path, manifest, rank);
  if (is_first) rank.control.barrier();
  Loader loader{rank};
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    Shard shard{(place / manifest.shards[i].name).string(), manifest.shards[i], rank.parameters};
    // Each is checked by someone, even if nobody needs what it says that it has.
    const bool checks = static_cast<int>(i) % rank.control.size() == rank.control.rank();
    if (!checks && !loader.needs(shard)) continue;
    shard.read_data();
    loader.take(shard);
  }
  if (loader.missing() != 0)
    refuse(manifest_path,
           fmt::format("{} elements of the weights are in no shard", loader.missing()));
  loader.write();
  rank.control.barrier();
  return manifest.step;
}

}  // namespace real
