// Parts that belong together, and those that do not.
#include "sim/distribute/merge.hpp"

#include "tests/unit/distribute/support.hpp"

using namespace sim;
using namespace sim::test;

namespace {

// All units of a part that it owns, the answer to n being 10 n.
std::string part_text(Shard shard, bool finished = true) {
  std::string text = header_line(sample_header(shard));
  for (std::uint64_t unit = 0; unit < 10; ++unit)
    if (shard.owns(unit)) text += record_line(unit, value(10 * unit));
  return finished ? text + finished_line() : text;
}

ResultCache merged(const std::vector<std::string>& paths) {
  return merge_records(paths, common_header(paths), read_value);
}

}  // namespace

TEST_CASE("all parts together know all, in any order and twice", "[distribute]") {
  const TemporaryFile a{"r.0-of-3"}, b{"r.1-of-3"}, c{"r.2-of-3"}, copy{"r.copy"};
  a.write(part_text({0, 3}));
  b.write(part_text({1, 3}));
  c.write(part_text({2, 3}));
  copy.write(part_text({1, 3}, false));
  const ResultCache book = merged({c.path, a.path, copy.path, b.path});
  CHECK(book.size() == 10);
  CHECK(*book.find(7) == value(70));
}

TEST_CASE("each part that is missing or unfinished is named with its command", "[distribute]") {
  const TemporaryFile a{"m.0-of-3"}, b{"m.1-of-3"};
  a.write(part_text({0, 3}));
  b.write(part_text({1, 3}, false));
  const std::string base = temporary_path("m").string();
  try {
    merged({a.path, b.path});
    FAIL("a part is missing");
  } catch (const InputError& error) {
    REQUIRE(error.problems().size() == 2);
    CHECK(error.problems()[0].where.file == b.path);
    CHECK(error.problems()[0].what ==
          "part 1/3 is not finished; go on with: stepcast search a.yaml --set search.top=3 "
          "--results " +
              base + " --shard 1/3 --resume");
    CHECK(error.problems()[1].where.file == base + ".2-of-3");
    CHECK(error.problems()[1].what ==
          "part 2/3 is missing; it comes from: stepcast search a.yaml --set search.top=3 "
          "--results " +
              base + " --shard 2/3");
  }
}

TEST_CASE("parts of different questions or numbers are not mixed", "[distribute]") {
  const TemporaryFile a{"x.0-of-2"}, b{"x.1-of-2"}, c{"x.1-of-3"}, empty{"x.empty"};
  a.write(part_text({0, 2}));
  RecordHeader other = sample_header({1, 2});
  other.question.version = "1.2.4";
  b.write(header_line(other) + finished_line());
  c.write(part_text({1, 3}));
  empty.write("");
  CHECK(problem_of([&] {
          merged({a.path, b.path});
        }) == "its records answer another question than those of " + a.path +
                  ": they are of version 1.2.4, this is version 1.2.3");
  CHECK(problem_of([&] {
          merged({a.path, c.path});
        }) == "is part 1/3, but " + a.path + " is part 0/2");
  CHECK(problem_of([&] { merged({empty.path}); }) ==
        "has no records: not even its first line is whole");
  CHECK(problem_of([&] { merged({"/no/such/file"}); }) ==
        "cannot read the file: No such file or directory");
}

TEST_CASE("files that contradict each other are refused, naming both", "[distribute]") {
  const TemporaryFile a{"c.0"}, b{"c.1"};
  a.write(part_text({}));
  b.write(header_line(sample_header()) + record_line(2, value(21)) + finished_line());
  CHECK(problem_of([&] {
          merged({a.path, b.path});
        }).find("unit 2 has another answer in " + a.path + ":4") == 0);
}

TEST_CASE("records whose scenario is not here say where they were made", "[distribute]") {
  RecordHeader header = sample_header();
  check_reachable(header);  // made in this folder: the scenario will be read, or told to be missing
  header.folder = "/elsewhere";
  CHECK(problem_of([&] { check_reachable(header); }) ==
        "there is no such file here; the records were made in /elsewhere: merge them there");
  header.question.scenario = "";
  check_reachable(header);
}
