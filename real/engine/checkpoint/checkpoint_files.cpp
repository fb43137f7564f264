#include "real/engine/checkpoint/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "real/engine/data/input_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"

namespace real {
namespace {

namespace files = std::filesystem;

constexpr const char* format_name = "stepcast checkpoint 1";
constexpr std::string_view hash_key = "\n \"sha256\": \"";
constexpr std::size_t hash_digits = 64;
constexpr std::int64_t most_ranks = 1 << 20;
// About 150 bytes for each of most_ranks shards, and for as many parameters again.
constexpr std::int64_t most_manifest_bytes = std::int64_t{1} << 29;

// The manifest's own hash is its last entry: of all that stands before that line.
void check_hash(std::string_view text, const std::string& path) {
  const std::size_t key = text.rfind(hash_key);
  if (key == std::string_view::npos || text.size() < key + hash_key.size() + hash_digits)
    refuse(path, "the manifest is torn: it does not end with its hash");
  const std::string_view stated = text.substr(key + hash_key.size(), hash_digits);
  if (sha256_of(std::as_bytes(std::span{text}.first(key))) != stated ||
      text.substr(key + hash_key.size() + hash_digits) != "\"\n}\n")
    refuse(path, "the manifest was changed: its hash is not what it says");
}

// Without a sum of what the file says, which might leave 64 bits.
bool lies_within(const ShardBlock& block, std::span<const Parameter> parameters) {
  if (block.parameter < 0 || block.parameter >= static_cast<std::int64_t>(parameters.size()))
    return false;
  const Parameter& parameter = parameters[static_cast<std::size_t>(block.parameter)];
  return block.row >= 0 && block.row <= parameter.rows && block.rows >= 0 &&
         block.rows <= parameter.rows - block.row && block.column >= 0 &&
         block.column <= parameter.columns && block.columns >= 1 &&
         block.columns <= parameter.columns - block.column && block.from >= 0 &&
         block.from <= block.to && block.to <= block.rows * block.columns;
}

std::uint64_t read_seed(const sim::ObjectReader& top) {
  const std::string text = top.text("seed");
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    top.problem("seed", "a seed is up to 16 hexadecimal digits");
  return seed;
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  using nlohmann::ordered_json;
  ordered_json json{{"format", format_name},
                    {"model", manifest.model},
                    {"step", manifest.step},
                    {"seed", fmt::format("{:x}", manifest.seed)}};
  ordered_json& parameters = json["parameters"] = ordered_json::array();
  for (const Manifest::Shape& shape : manifest.parameters)
    parameters.push_back({{"name", shape.name}, {"rows", shape.rows}, {"columns", shape.columns}});
  ordered_json& shards = json["shards"] = ordered_json::array();
  for (const ShardFile& shard : manifest.shards)
    shards.push_back({{"file", shard.name}, {"bytes", shard.bytes}, {"sha256", shard.sha256}});
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // the line break and the closing brace
  return sealed(text + ",");
}

std::string sealed(const std::string& text) {
  const std::string own = sha256_of(std::as_bytes(std::span{text}));
  return text + std::string{hash_key} + own + "\"\n}\n";
}

Manifest read_manifest(const std::string& path) {
  const InputFile in{path};
  if (in.bytes() > most_manifest_bytes)
    refuse(path, fmt::format("the manifest is larger than {} MiB", most_manifest_bytes >> 20));
  std::string text(static_cast<std::size_t>(in.bytes()), ' ');
  in.read(0, std::as_writable_bytes(std::span{text}));
  return parse_manifest(text, path);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  check_hash(text, path);
  const sim::Document document = sim::Document::parse_json(text, path);
  const sim::ObjectReader top = document.root_object();
  Manifest manifest;
  if (top.text("format") != format_name)
    top.problem("format", fmt::format("allowed: {}", format_name));
  manifest.model = top.text("model");
  manifest.step = top.integer("step", {.min = 0});
  manifest.seed = read_seed(top);
  static_cast<void>(top.text("sha256"));
  for (const sim::ValueReader& entry : top.list("parameters")) {
    const sim::ObjectReader shape = entry.object();
    manifest.parameters.push_back({shape.text("name"), shape.integer("rows", {.min = 1}),
                                   shape.integer("columns", {.min = 1})});
  }
  for (const sim::ValueReader& entry : top.list("shards")) {
    const sim::ObjectReader shard = entry.object();
    const std::string name = shard.text("file");
    if (name != shard_name(static_cast<int>(manifest.shards.size())))
      shard.problem("file", "shards are called rank-00000.state and on, in order");
    manifest.shards.push_back({name, shard.integer("bytes", {.min = 0}), shard.text("sha256")});
  }
  if (static_cast<std::int64_t>(manifest.shards.size()) > most_ranks)
    top.problem("shards", fmt::format("allowed: up to {}", most_ranks));
  document.finish();
  return manifest;
}

std::vector<ShardBlock> read_blocks(const InputFile& shard, std::span<const Parameter> parameters) {
  ShardHeader header;
  const std::int64_t rest = shard.bytes() - static_cast<std::int64_t>(sizeof header);
  if (rest >= 0) shard.read(0, std::as_writable_bytes(std::span{&header, 1}));
  if (rest < 0 || header.mark != ShardHeader::magic || header.blocks < 0 ||
      header.blocks > rest / static_cast<std::int64_t>(sizeof(ShardBlock)))
    refuse(shard.path(), "this is no shard of a checkpoint");
  std::vector<ShardBlock> blocks(static_cast<std::size_t>(header.blocks));
  shard.read(sizeof header, std::as_writable_bytes(std::span{blocks}));
  std::int64_t values = (rest - header.blocks * static_cast<std::int64_t>(sizeof(ShardBlock))) /
                        static_cast<std::int64_t>(sizeof(float));
  for (const ShardBlock& block : blocks) {
    if (!lies_within(block, parameters))
      refuse(shard.path(), "this shard was changed: a block leaves its parameter");
    if (block.elements() > values / 3)  // the weights and both moments
      refuse(shard.path(), "this shard was changed: its blocks do not fit in it");
    values -= 3 * block.elements();
  }
  return blocks;
}

DurableFile::DurableFile(const std::string& path)
    : name_{files::path{path}.filename().string()}, file_{path} {}

void DurableFile::write(std::span<const std::byte> data) {
  hash_.update(data);
  bytes_ += static_cast<std::int64_t>(data.size());
  file_.write({reinterpret_cast<const char*>(data.data()), data.size()});
}

ShardFile DurableFile::commit() {
  file_.commit();
  return {name_, bytes_, hex(hash_.finish())};
}

std::string shard_name(int rank) {
  return fmt::format("rank-{:05}.state", rank);
}

std::string step_folder(const std::string& folder, std::int64_t step) {
  return (files::path{folder} / fmt::format("step-{:08}", step)).string();
}

std::string find_checkpoint(const std::string& folder) {
  std::error_code error;
  if (files::exists(files::path{folder} / "manifest.json", error)) return folder;
  // If the folder itself was named, say what it lacks.
  const auto holds_shards = files::exists(files::path{folder} / shard_name(0), error);
  if (holds_shards)
    refuse((files::path{folder} / "manifest.json").string(),
           "the manifest of the checkpoint is missing");
  std::vector<std::string> steps;
  for (const auto& entry : files::directory_iterator{folder, error}) {
    if (entry.path().filename().string().starts_with("step-") &&
        files::exists(entry.path() / "manifest.json", error))
      steps.push_back(entry.path().string());
  }
  if (steps.empty()) refuse(folder, "there is no checkpoint here");
  return *std::max_element(steps.begin(), steps.end(),
                           [](const std::string& a, const std::string& b) {
                             return a.size() != b.size() ? a.size() < b.size() : a < b;
                           });
}

}  // namespace real
