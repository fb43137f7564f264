// The text of records: every way in which it can be damaged, and what is said then.
#include "sim/distribute/records.hpp"

#include "tests/unit/distribute/support.hpp"

using namespace sim;
using namespace sim::test;

namespace {

const std::string head = header_line(sample_header());

RecordsRead parse(const std::string& text, ResultCache& book) {
  return parse_records(text, "r", read_value, book);
}

std::string problem(const std::string& text) {
  return problem_of([&] {
    ResultCache book;
    parse(text, book);
  });
}

std::string place(const std::string& text) {
  return place_of([&] {
    ResultCache book;
    parse(text, book);
  });
}

}  // namespace

TEST_CASE("records read back as they were written", "[distribute]") {
  ResultCache book;
  const std::string text =
      head + record_line(3, value(30)) + record_line(7, value(70)) + finished_line();
  const RecordsRead got = parse(text, book);
  CHECK(got.header == sample_header());
  CHECK(got.finished);
  CHECK(got.intact == text.size());
  CHECK(book.size() == 2);
  CHECK(*book.find(3) == value(30));
  CHECK(book.find(4) == nullptr);
  CHECK(parse_header(text, "r") == sample_header());
}

TEST_CASE("a text that was cut anywhere loses only the line that was cut", "[distribute]") {
  const std::string first = record_line(3, value(30));
  const std::string text = head + first + record_line(7, value(70)) + finished_line();
  for (std::size_t length = 0; length <= text.size(); ++length) {
    CAPTURE(length);
    ResultCache book;
    const RecordsRead got = parse(text.substr(0, length), book);
    const std::size_t whole =
        length < head.size() ? 0 : text.rfind('\n', length == 0 ? 0 : length - 1) + 1;
    CHECK(got.intact == whole);
    CHECK(got.header.has_value() == (length >= head.size()));
    CHECK((book.find(3) != nullptr) == (length >= head.size() + first.size()));
    CHECK(got.finished == (length == text.size()));
  }
}

TEST_CASE("a line that is damaged is an error with its number", "[distribute]") {
  const std::string good = record_line(3, value(30));
  CHECK(place(head + good + "{\"unit\":4,\"answ\n" + good) == "r:3");
  CHECK(place(head + good + "\n" + good) == "r:3");
  CHECK(place(head + "{\"unit\":4}\n") == "r:2");
  CHECK(problem(head + "{\"unit\":4,\"answer\":{}}\n").find("value") != std::string::npos);
  CHECK(place(head + "{\"unit\":4,\"answer\":{\"value\":1,\"more\":2}}\n") == "r:2");
  CHECK(problem(head + record_line(10, value(1))) == "10 is none of the 10 units of this question");
  CHECK(place(head + "{\"unit\":-1,\"answer\":{\"value\":1}}\n") == "r:2");
  CHECK(place(head + std::string("\0\0\0\n", 4)) == "r:2");
  CHECK(place(head + "{\"finished\":1}\n") == "r:2");
}

TEST_CASE("a file that is not of records says so", "[distribute]") {
  CHECK(problem("{\"a\": 1}\n") ==
        "this is no file of records: its first line has no \"stepcast_records\"");
  CHECK(place("model: gpt2\nmore: 1\n") == "r:1");
  std::string later = head;
  later.replace(later.find("\"stepcast_records\":1"), 20, "\"stepcast_records\":2");
  CHECK(problem(later) == "is 2; this program reads records of form 1");
  std::string shard = head;
  shard.replace(shard.find("0/1"), 3, "3/2");
  CHECK(problem(shard).find("the parts of 2 are 0/2 to 1/2") != std::string::npos);
}

TEST_CASE("records that are equal are one, records that contradict are an error", "[distribute]") {
  ResultCache book;
  parse(head + record_line(3, value(30)) + record_line(3, value(30)), book);
  CHECK(book.size() == 1);
  // Spaces make no other answer.
  parse(head + "{\"unit\": 3, \"answer\": {\"value\": 30}}\n", book);
  CHECK(book.size() == 1);
  const std::string wrong = head + record_line(4, value(1)) + record_line(3, value(31));
  CHECK(problem_of([&] { parse(wrong, book); }) ==
        "unit 3 has another answer in r:2; one of them is not of this question and program: "
        "remove it");
  CHECK(place_of([&] { parse(wrong, book); }) == "r:3");
}

TEST_CASE("a part has records of its own units only", "[distribute]") {
  const Shard half{1, 2};
  const std::uint64_t foreign = half.owns(0) ? 1 : 0;
  CHECK(problem(header_line(sample_header(half)) + record_line(foreign, value(1))) ==
        std::to_string(foreign) + " does not belong to part 1/2");
}
