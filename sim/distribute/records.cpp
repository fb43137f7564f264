#include "sim/distribute/records.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace sim {
namespace {

constexpr std::int64_t schema_version = 1;

// Problems of a line that was read as a document of its own, at its place in the file.
[[noreturn]] void throw_at(const InputError& error, int line) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems)
    problem.where.line = line;
  throw InputError{std::move(problems)};
}

std::vector<std::string> texts(const ObjectReader& top, std::string_view key) {
  std::vector<std::string> all;
  for (const ValueReader& entry : top.list(key))
    all.push_back(entry.text());
  return all;
}

RecordHeader read_header(const ObjectReader& top) {
  RecordHeader header;
  const std::int64_t version = top.integer("stepcast_records");
  if (version != schema_version)
    top.problem("stepcast_records", fmt::format("is {}; this program reads records of form {}",
                                                version, schema_version));
  JobKey& question = header.question;
  question.command = top.text("command");
  question.version = top.text("stepcast_version");
  question.scenario = top.text("scenario");
  question.arguments = texts(top, "arguments");
  for (const ValueReader& entry : top.list("files")) {
    const ObjectReader file = entry.object();
    question.files.push_back({file.text("path"), file.text("digest")});
  }
  question.units = static_cast<std::uint64_t>(top.integer("units"));
  header.folder = top.text("folder");
  const std::string shard = top.text("shard");
  try {
    header.shard = parse_shard(shard);
  } catch (const std::invalid_argument& error) {
    top.problem("shard", error.what());
  }
  return header;
}

RecordHeader header_of(std::string_view line, const std::string& name) {
  const Document document = Document::parse_json(line, name);
  const ObjectReader top = document.root_object();
  if (!top.has("stepcast_records"))
    throw InputError{SourcePosition{name, 1, 1},
                     "this is no file of records: its first line has no \"stepcast_records\""};
  RecordHeader header = read_header(top);
  document.finish();
  return header;
}

struct Line {
  std::string_view text;
  int number = 0;
};

// Reads what stands behind the header.
void read_line(const Line& line, const std::string& name, const ReadAnswer& read, RecordsRead& got,
               ResultCache& book) {
  const Document document = Document::parse_json(line.text, name);
  const ObjectReader top = document.root_object();
  if (top.has("finished")) {
    const bool finished = top.boolean("finished");
    document.finish();
    got.finished = finished;
    return;
  }
  const std::uint64_t units = got.header->question.units;
  const auto unit = static_cast<std::uint64_t>(top.integer("unit"));
  if (unit >= units)
    top.problem("unit", fmt::format("{} is none of the {} units of this question", unit, units));
  else if (!got.header->shard.owns(unit))
    top.problem("unit",
                fmt::format("{} does not belong to part {}", unit, to_text(got.header->shard)));
  std::string answer = read(top.object("answer"));
  document.finish();
  book.add(unit, std::move(answer), {name, line.number, 0});
}

}  // namespace

void ResultCache::add(std::uint64_t unit, std::string answer, const SourcePosition& where) {
  const auto known = answers_.find(unit);
  if (known == answers_.end()) {
    answers_.emplace(unit, Known{std::move(answer), where});
    return;
  }
  if (known->second.answer == answer) return;
  const SourcePosition& other = known->second.where;
  throw InputError{where,
                   fmt::format("unit {} has another answer in {}:{}; one of them is not of this "
                               "question and program: remove it",
                               unit, other.file, other.line)};
}

const std::string* ResultCache::find(std::uint64_t unit) const {
  const auto known = answers_.find(unit);
  return known == answers_.end() ? nullptr : &known->second.answer;
}

std::optional<RecordHeader> parse_header(std::string_view text, const std::string& name) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  return header_of(text.substr(0, end), name);
}

RecordsRead parse_records(std::string_view text, const std::string& name, const ReadAnswer& read,
                          ResultCache& book) {
  RecordsRead got;
  Line line;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string_view::npos) break;  // cut: a worker was killed while it wrote
    line = {text.substr(at, end - at), line.number + 1};
    try {
      if (line.number == 1)
        got.header = header_of(line.text, name);
      else
        read_line(line, name, read, got, book);
    } catch (const InputError& error) {
      throw_at(error, line.number);
    }
    at = got.intact = end + 1;
  }
  return got;
}

std::string header_line(const RecordHeader& header) {
  const JobKey& question = header.question;
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const InputFile& file : question.files)
    files.push_back({{"path", file.path}, {"digest", file.digest}});
  const nlohmann::ordered_json json{{"stepcast_records", schema_version},
                                    {"command", question.command},
                                    {"stepcast_version", question.version},
                                    {"scenario", question.scenario},
                                    {"arguments", question.arguments},
                                    {"files", files},
                                    {"units", question.units},
                                    {"shard", to_text(header.shard)},
                                    {"folder", header.folder}};
  // A path may be any bytes; what is no UTF-8 is replaced.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

std::string record_line(std::uint64_t unit, std::string_view answer) {
  return fmt::format("{{\"unit\":{},\"answer\":{}}}\n", unit, answer);
}

std::string finished_line() {
  return "{\"finished\":true}\n";
}

}  // namespace sim
