#include "sim/explain/steps.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;

std::vector<std::uint32_t> repeated(const std::vector<std::uint32_t>& one, int times) {
  std::vector<std::uint32_t> all;
  for (int i = 0; i < times; ++i)
    all.insert(all.end(), one.begin(), one.end());
  return all;
}

TEST_CASE("a step recurs, not the layers within it") {
  std::vector<std::uint32_t> step = repeated({1, 2, 3}, 12);
  const std::vector<std::uint32_t> backward = repeated({4, 5, 3, 5}, 12);
  step.insert(step.end(), backward.begin(), backward.end());
  step.push_back(9);
  const Recurrence found = find_recurrence(repeated(step, 4));
  CHECK(found.length == step.size());
  CHECK(found.times == 4);
  CHECK(found.first == 0);
}

TEST_CASE("a step with many micro-batches is not taken for one of them") {
  std::vector<std::uint32_t> step = repeated({1, 2, 3, 4, 5}, 64);
  step.push_back(9);
  CHECK(find_recurrence(repeated(step, 3)).length == step.size());
}

TEST_CASE("what comes before the first whole step stays out") {
  std::vector<std::uint32_t> names{7, 7};
  const std::vector<std::uint32_t> steps = repeated({1, 2, 3, 4, 5, 6}, 3);
  names.insert(names.end(), steps.begin(), steps.end());
  const Recurrence found = find_recurrence(names);
  CHECK(found.length == 6);
  CHECK(found.times == 3);
}

TEST_CASE("no recurrence where nothing recurs") {
  CHECK(find_recurrence({}).times == 0);
  CHECK(find_recurrence({1}).times == 0);
  CHECK(find_recurrence({1, 2, 3, 4, 5, 6, 7, 8}).times == 0);
  CHECK(find_recurrence({1, 2, 3, 1, 4, 5, 6, 7, 1, 8}).times == 0);
}

}  // namespace
