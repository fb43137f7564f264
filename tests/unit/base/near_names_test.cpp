#include "sim/base/near_names.hpp"

#include "tests/catch.hpp"

namespace {

using sim::choices_text;
using sim::near_names;
using Names = std::vector<std::string_view>;

const Names keys{"tensor_parallel", "pipeline_parallel", "data_parallel",
                 "micro_batch",     "global_batch",      "bucket",
                 "first_bucket"};

TEST_CASE("the names most like a word come first", "[near_names]") {
  CHECK(near_names("batch_micro", keys) == Names{"micro_batch", "global_batch"});
  CHECK(near_names("BUCKETS", keys, 2) == Names{"bucket", "first_bucket"});
  CHECK(near_names("xyz", keys).empty());
  CHECK(near_names("foo", {"reshard_after_forward"}).empty());
  CHECK(near_names("", keys).empty());
  CHECK(near_names(std::string(70'000, 'a'), keys).empty());
}

TEST_CASE("a message names three choices at most, never all", "[near_names]") {
  CHECK(choices_text("tensor_paralel", keys) == "did you mean 'tensor_parallel'?");
  CHECK(choices_text("parallelism", keys) ==
        "nearest of 7: data_parallel, pipeline_parallel, tensor_parallel");
  CHECK(choices_text("xyz", keys) ==
        "allowed: tensor_parallel, pipeline_parallel, data_parallel and 4 more");
  CHECK(choices_text("xyz", {"ring", "tree"}) == "allowed: ring, tree");
  // Short names that engineers use.
  CHECK(choices_text("tp", keys) == "did you mean 'tensor_parallel'?");
  CHECK(choices_text("gbs", keys) == "did you mean 'global_batch'?");
  CHECK(choices_text("ep", keys) ==
        "allowed: tensor_parallel, pipeline_parallel, data_parallel and 4 more");
}

}  // namespace
