#include "sim/trace/recorder_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/base/input_error.hpp"
#include "sim/config/streamed_json.hpp"
#include "sim/trace/trace_event.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_rank = 1 << 24;

std::vector<RankId> ranks_of_text(std::string_view text) {
  std::vector<RankId> ranks;
  for (const std::int64_t rank : ranks_in(text))
    if (rank <= most_rank) ranks.push_back({static_cast<std::uint32_t>(rank)});
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// "rank_3" anywhere in a file's name, or the number at its end: "dump_3.json".
std::optional<int> rank_of_file(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (const std::string_view ending : {".gz", ".json"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  std::size_t at = name.rfind("rank");
  at = at == std::string::npos ? name.size() : at + 4;
  while (at < name.size() && (name[at] == '_' || name[at] == '-' || name[at] == '.'))
    ++at;
  if (at == name.size()) {
    const std::size_t last = name.find_last_not_of("0123456789");
    at = last == std::string::npos ? 0 : last + 1;
  }
  int rank = -1;
  std::from_chars(name.data() + at, name.data() + name.size(), rank);
  return rank >= 0 && rank <= most_rank ? std::optional{rank} : std::nullopt;
}

class DumpReader {
 public:
  explicit DumpReader(ByteSource& source) : scan_{source} { dump_.name = source.name(); }

  Dump read() {
    if (is_pickle(scan_.head()))
      throw InputError{
          SourcePosition{dump_.name, 0, 0},
          "is a pickle, as the Flight Recorder writes it by itself. A pickle can run code: if it "
          "is "
          "of your own run, make it JSON with python3 -c \"import json, pickle, sys; "
          "json.dump(pickle.load(open(sys.argv[1], 'rb')), open(sys.argv[1] + '.json', 'w'), "
          "default=str)\" FILE"};
    bool found = false;
    scan_.object([&](std::string_view key) {
      const StreamedJson::Kind kind = scan_.peek();
      if (key == "entries" && kind == StreamedJson::Kind::list) {
        found = true;
        scan_.list([&] { entry(); });
      } else if (key == "pg_config" && kind == StreamedJson::Kind::object) {
        scan_.object([&](std::string_view id) { config(std::string{id}); });
      } else if (key == "pg_status" && kind == StreamedJson::Kind::object) {
        scan_.object([&](std::string_view id) { status(std::string{id}); });
      } else if (key == "rank") {
        rank();
      } else {
        scan_.skip();
      }
    });
    scan_.finish();
    if (!found)
      throw InputError{SourcePosition{dump_.name, 0, 0},
                       "no \"entries\": this is no dump of PyTorch's Flight Recorder"};
    if (!dump_.rank) dump_.rank = rank_of_file(dump_.name);
    return std::move(dump_);
  }

 private:
  void rank() {
    std::int64_t rank = -1;
    integer_if(scan_, rank);
    if (rank >= 0 && rank <= most_rank) dump_.rank = static_cast<int>(rank);
  }

  void config(const std::string& id) {
    if (scan_.peek() != StreamedJson::Kind::object) return scan_.skip();
    DumpedGroup& group = dump_.groups[id];
    if (group.name.empty()) group.name = id;
    scan_.object([&](std::string_view key) {
      if (key == "name")
        text_if(scan_, group.name);
      else if (key == "desc")
        text_if(scan_, group.description);
      else if (key == "ranks")
        ranks(group);
      else
        scan_.skip();
    });
  }

  void ranks(DumpedGroup& group) {
    std::string text;
    if (scan_.peek() == StreamedJson::Kind::list)
      scan_.list([&] {
        std::int64_t rank = -1;
        integer_if(scan_, rank);
        text += fmt::format(" {}", rank);
      });
    else
      text_if(scan_, text);
    group.ranks = ranks_of_text(text);
  }

  void status(const std::string& id) {
    if (scan_.peek() != StreamedJson::Kind::object) return scan_.skip();
    DumpedGroup& group = dump_.groups[id];
    if (group.name.empty()) group.name = id;
    scan_.object([&](std::string_view key) {
      if (key == "last_enqueued_collective")
        integer_if(scan_, group.enqueued);
      else if (key == "last_completed_collective")
        integer_if(scan_, group.completed);
      else
        scan_.skip();
    });
  }

  void entry() {
    if (scan_.peek() != StreamedJson::Kind::object) return scan_.skip();
    DumpedCall made;
    std::string name, state, inputs, outputs, types;
    std::int64_t sequence = 0, message = 0;
    scan_.object([&](std::string_view key) {
      if (key == "process_group")
        group(made);
      else if (key == "profiling_name")
        text_if(scan_, name);
      else if (key == "state")
        text_if(scan_, state);
      else if (key == "collective_seq_id" || key == "seq_id")
        integer_if(scan_, sequence);
      else if (key == "p2p_seq_id")
        integer_if(scan_, message);
      else if (key == "is_p2p")
        made.message = boolean();
      else if (key == "input_sizes")
        inputs = sizes(made);
      else if (key == "output_sizes")
        outputs = sizes(made);
      else if (key == "input_dtypes")
        types = texts();
      else
        scan_.skip();
    });
    made.call.sequence = made.message ? message : sequence;
    made.call.operation = name.substr(name.find(':') == std::string::npos ? 0 : name.find(':') + 1);
    made.call.sizes = fmt::format("{} -> {}", inputs, outputs);
    made.call.types = types;
    made.call.state = state == "completed" ? RecordedCall::State::completed
                      : state == "started" ? RecordedCall::State::started
                                           : RecordedCall::State::scheduled;
    dump_.calls.push_back(std::move(made));
  }

  // ["0", "default_pg"]
  void group(DumpedCall& made) {
    if (scan_.peek() != StreamedJson::Kind::list) return text_if(scan_, made.group);
    int place = 0;
    scan_.list([&] {
      std::string text;
      text_if(scan_, text);
      if (place == 0) made.group = text;
      if (place == 1) made.description = text;
      ++place;
    });
  }

  // A word: true, false; what is something else is false.
  bool boolean() {
    if (scan_.peek() != StreamedJson::Kind::word) return scan_.skip(), false;
    return scan_.word() == "true";
  }

  // "[4096, 1024] [8]"; their elements are added.
  std::string sizes(DumpedCall& made) {
    std::string text;
    if (scan_.peek() != StreamedJson::Kind::list) return scan_.skip(), text;
    scan_.list([&] {
      if (scan_.peek() != StreamedJson::Kind::list) return scan_.skip();
      std::string extents;
      double elements = 1;
      scan_.list([&] {
        std::int64_t extent = 0;
        integer_if(scan_, extent);
        elements *= static_cast<double>(extent);
        extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
      });
      if (text.size() < most_text) text += fmt::format("{}[{}]", text.empty() ? "" : " ", extents);
      const bool countable = elements >= 0 && elements < 1e18;
      made.elements.push_back(countable ? static_cast<std::int64_t>(elements) : 0);
    });
    return text;
  }

  std::string texts() {
    std::string text;
    if (scan_.peek() != StreamedJson::Kind::list) return scan_.skip(), text;
    scan_.list([&] {
      std::string one;
      text_if(scan_, one);
      if (text.size() < most_text) text += (text.empty() ? "" : " ") + one;
    });
    return text;
  }

  static constexpr std::size_t most_text = 200;
  StreamedJson scan_;
  Dump dump_;
};

}  // namespace

bool is_pickle(std::string_view head) {
  return head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

Dump read_dump(ByteSource& source) {
  return DumpReader{source}.read();
}

}  // namespace sim
