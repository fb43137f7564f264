#include "sim/distribute/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/distribute/record_file.hpp"

namespace sim {
namespace {

// The most parts that are named one by one.
constexpr std::size_t named_parts = 20;

RecordHeader header_of_file(const std::string& path) {
  const std::optional<RecordHeader> header = parse_header(read_record_text(path), path);
  if (!header)
    throw InputError{SourcePosition{path, 0, 0},
                     "has no records: not even its first line is whole"};
  return *header;
}

// FILE of FILE.2-of-8.
std::string without_part(const std::string& path, const Shard& shard) {
  const std::string suffix = shard_path("", shard);
  return path.ends_with(suffix) ? path.substr(0, path.size() - suffix.size()) : path;
}

struct Part {
  std::string path;  // empty: no file of it
  bool finished = false;
};

std::string command_for(const RecordHeader& header, const std::string& results, const Shard& shard,
                        bool resume) {
  std::vector<std::string> more{"--results", results};
  if (!shard.whole()) more.insert(more.end(), {"--shard", to_text(shard)});
  if (resume) more.emplace_back("--resume");
  std::string command = command_line(header.question, more);
  std::error_code ignored;
  if (header.folder != std::filesystem::current_path(ignored).string())
    command += fmt::format(" (in {})", header.folder);
  return command;
}

void check_complete(const std::vector<Part>& parts, const RecordHeader& header,
                    const std::string& results) {
  std::vector<Problem> problems;
  const auto add = [&](const std::string& path, const std::string& what) {
    Problem problem;
    problem.where.file = path;
    problem.what = what;
    problems.push_back(std::move(problem));
  };
  std::size_t more = 0;
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.finished) continue;
    if (problems.size() == named_parts) {
      ++more;
      continue;
    }
    const Shard shard{i, header.shard.count};
    const std::string command = command_for(header, results, shard, !part.path.empty());
    if (part.path.empty())
      add(shard_path(results, shard),
          fmt::format("part {} is missing; it comes from: {}", to_text(shard), command));
    else
      add(part.path,
          fmt::format("part {} is not finished; go on with: {}", to_text(shard), command));
  }
  if (more > 0) add(results, fmt::format("{} more parts are missing or not finished", more));
  if (!problems.empty()) throw InputError{std::move(problems)};
}

}  // namespace

RecordHeader common_header(const std::vector<std::string>& paths) {
  RecordHeader first = header_of_file(paths.front());
  for (const std::string& path : paths) {
    const RecordHeader header = header_of_file(path);
    const std::string other = difference(header.question, first.question);
    if (!other.empty())
      throw InputError{SourcePosition{path, 0, 0},
                       fmt::format("its records answer another question than those of {}: {}",
                                   paths.front(), other)};
    if (header.shard.count != first.shard.count)
      throw InputError{SourcePosition{path, 0, 0},
                       fmt::format("is part {}, but {} is part {}", to_text(header.shard),
                                   paths.front(), to_text(first.shard))};
  }
  return first;
}

void check_reachable(const RecordHeader& header) {
  const std::string& scenario = header.question.scenario;
  std::error_code ignored;
  if (scenario.empty() || std::filesystem::exists(scenario, ignored) ||
      header.folder == std::filesystem::current_path(ignored).string())
    return;
  throw InputError{SourcePosition{scenario, 0, 0},
                   fmt::format("there is no such file here; the records were made in {}: merge "
                               "them there",
                               header.folder)};
}

ResultCache merge_records(const std::vector<std::string>& paths, const RecordHeader& header,
                          const ReadAnswer& read) {
  ResultCache book;
  std::vector<Part> parts(header.shard.count);
  for (const std::string& path : paths) {
    const RecordsRead got = parse_records(read_record_text(path), path, read, book);
    Part& part = parts[got.header->shard.index];
    if (part.finished) continue;
    part = {path, got.finished};
  }
  check_complete(parts, header, without_part(paths.front(), header.shard));
  return book;
}

}  // namespace sim
