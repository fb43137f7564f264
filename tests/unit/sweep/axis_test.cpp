#include "sim/sweep/axis.hpp"

#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;
using Values = std::vector<std::string>;

namespace {

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(axis_values(text));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("values are a list or a range, with units", "[sweep]") {
  CHECK(axis_values("1, 2,4") == Values{"1", "2", "4"});
  CHECK(axis_values("none,full") == Values{"none", "full"});
  CHECK(axis_values("8..64*2") == Values{"8", "16", "32", "64"});
  CHECK(axis_values("1..4") == Values{"1", "2", "3", "4"});
  CHECK(axis_values("0.1..0.3+0.1") == Values{"0.1", "0.2", "0.3"});
  CHECK(axis_values("100 Gbps..400 Gbps*2") == Values{"100 Gbps", "200 Gbps", "400 Gbps"});
  CHECK(axis_values("1 us..3+1") == Values{"1 us", "2 us", "3 us"});
  CHECK(axis_values("x0.5,x2") == Values{"x0.5", "x2"});
}

TEST_CASE("broken values are refused", "[sweep]") {
  CHECK(refusal("") == "a value is empty");
  CHECK(refusal("1,,2") == "a value is empty");
  CHECK(refusal("1,2,1") == "the value 1 is listed twice");
  CHECK(refusal("a..b") == "a range is 8..64*2 or 100 Gbps..400 Gbps+50");
  CHECK(refusal("1..") == "a range is 8..64*2 or 100 Gbps..400 Gbps+50");
  CHECK(refusal("1..8*1") == "a range that multiplies begins above 0, with a factor above 1");
  CHECK(refusal("0..8*2") == "a range that multiplies begins above 0, with a factor above 1");
  CHECK(refusal("1..8+0") == "the step of a range is above 0");
  CHECK(refusal("8..1") == "the range ends before it begins");
  CHECK(refusal("1 GB/s..8 Gbps+1") == "both ends of a range have the same unit");
  CHECK(refusal("1..1e9") == "a range has at most 10000 values");
  CHECK(refusal("1..nan") == "a range is 8..64*2 or 100 Gbps..400 Gbps+50");
  CHECK(refusal("1,2..8*2") == "a list with commas or a range with .., not both");
  CHECK_THROWS_AS(parse_axis("cluster.nodes"), InputError);
  CHECK_THROWS_AS(parse_axis("=1,2"), InputError);
}

TEST_CASE("the last axis of a grid varies fastest", "[sweep]") {
  const std::vector<Axis> axes{{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  CHECK(point_count(axes) == 6);
  CHECK(values_at(axes, 0) == Values{"1", "x"});
  CHECK(values_at(axes, 4) == Values{"2", "y"});
  CHECK(assignments(axes, 5) == Values{"a=2", "b=z"});
  CHECK(point_count({}) == 1);
}

TEST_CASE("numbers of GPUs are whole, ascending, and not too many", "[sweep]") {
  CHECK(gpu_counts("64..512*2", "--gpus") == std::vector<int>{64, 128, 256, 512});
  CHECK(gpu_counts("16,8", "--gpus") == std::vector<int>{8, 16});
  CHECK_THROWS_WITH(gpu_counts("8,x", "--gpus"),
                    "--gpus: error: 'x' is no number of GPUs from 1 to 2097152");
  CHECK_THROWS_WITH(gpu_counts("0", "--gpus"),
                    "--gpus: error: '0' is no number of GPUs from 1 to 2097152");
  CHECK_THROWS_WITH(gpu_counts("8,8", "--gpus"), "--gpus: error: the value 8 is listed twice");
}
