#include <filesystem>
#include <system_error>

#include "real/engine/checkpoint/checkpoint.hpp"
#include "real/engine/checkpoint/checkpoint_files.hpp"
#include "real/engine/checkpoint/global_tensors.hpp"
#include "real/engine/trainer.hpp"

namespace real {
namespace {

constexpr std::int64_t most_written = 4LL << 20;  // read at once: 16 MiB

struct OwnBlock {
  ShardBlock block;
  std::uint32_t bucket = 0;
  std::int64_t first = 0;  // of the owned elements of the bucket
};

std::vector<OwnBlock> blocks_of(const CheckpointRank& rank) {
  std::vector<OwnBlock> blocks;
  for_each_counted(
      rank.program, bucket_pieces(rank.program, rank.parameters),
      [&](std::uint32_t bucket, const Piece& piece, std::int64_t from, std::int64_t to) {
        blocks.push_back(
            {{piece.parameter, piece.rows, piece.columns, piece.row, piece.column, from, to},
             bucket,
             piece.first + from - rank.program.buckets[bucket].owned_first});
      });
  return blocks;
}

void write_values(const CheckpointRank& rank, const OwnBlock& own, StateKind kind,
                  DurableFile& file) {
  std::vector<float> values;
  for (std::int64_t at = 0; at < own.block.elements(); at += most_written) {
    values.resize(static_cast<std::size_t>(std::min(most_written, own.block.elements() - at)));
    read_owned(rank.program, rank.backend, own.bucket, kind, own.first + at, values);
    file.write(std::as_bytes(std::span{values}));
  }
}

ShardFile write_shard(const std::string& path, const CheckpointRank& rank) {
  const std::vector<OwnBlock> blocks = blocks_of(rank);
  DurableFile file{path};
  const ShardHeader header{.blocks = static_cast<std::int64_t>(blocks.size())};
  file.write(std::as_bytes(std::span{&header, 1}));
  for (const OwnBlock& own : blocks)
    file.write(std::as_bytes(std::span{&own.block, 1}));
  for (const OwnBlock& own : blocks) {
    for (const StateKind kind :
         {StateKind::master, StateKind::first_moment, StateKind::second_moment})
      write_values(rank, own, kind, file);
  }
  return file.commit();
}

struct Written {
  std::int64_t bytes = 0;
  std::array<char, 64> sha256{};
};

}  // namespace

void save_checkpoint(const std::string& folder, const CheckpointPoint& point,
                     const CheckpointRank& rank) {
  const std::filesystem::path place{step_folder(folder, point.step)};
  const std::string manifest_path = (place / "manifest.json").string();
  if (rank.control.rank() == 0) {
    std::filesystem::create_directories(place);
    // From a run before: it does not describe the shards that come now.
    std::filesystem::remove(manifest_path);
  }
  rank.control.barrier();
  const ShardFile own = write_shard((place / shard_name(rank.control.rank())).string(), rank);
  Written written{.bytes = own.bytes};
  std::copy(own.sha256.begin(), own.sha256.end(), written.sha256.begin());
  const std::vector<Written> all = rank.control.all(written);
  if (rank.control.rank() == 0) {
    Manifest manifest{.model = rank.program.model->name,
                      .step = point.step,
                      .seed = point.seed,
                      .parameters = {},
                      .shards = {}};
    for (const Parameter& parameter : rank.parameters)
      manifest.parameters.push_back({parameter.name, parameter.rows, parameter.columns});
    for (std::size_t r = 0; r < all.size(); ++r)
      manifest.shards.push_back({shard_name(static_cast<int>(r)), all[r].bytes,
                                 std::string{all[r].sha256.begin(), all[r].sha256.end()}});
    DurableFile file{manifest_path};
    const std::string text = to_text(manifest);
    file.write(std::as_bytes(std::span{text}));
    file.commit();
  }
  rank.control.barrier();
}

void Trainer::save(const std::string& folder) {
  if (setup_.heartbeat != nullptr) setup_.heartbeat->enter(RankPhase::saving);
  save_checkpoint(folder, {next_step_, setup_.training.seed},
                  {*setup_.program, parameters_, *setup_.backend, control_});
}

void Trainer::resume(const std::string& folder) {
  if (setup_.heartbeat != nullptr) setup_.heartbeat->enter(RankPhase::preparing);
  next_step_ = load_checkpoint(folder, {*setup_.program, parameters_, *setup_.backend, control_});
}

}  // namespace real
