// Curves of collectives: reading, the mapping to clusters, and what is skipped with which reason.
#include "sim/validation/curves.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;

const std::string index_header = "run_id,gpu,nodes,gpus,op,nics_per_node,nic_gbps,fabric\n";
const std::string point_header = "run_id,size_bytes,time_us,time_us_inplace\n";

std::vector<Curve> curves_of(const std::string& points, const std::string& index) {
  return read_curves(CsvTable::parse(point_header + points, "c.csv"),
                     CsvTable::parse(index_header + index, "i.csv"));
}

std::string problems_of(const std::string& points, const std::string& index) {
  try {
    curves_of(points, index);
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems())
      all += problem.where.file + ":" + std::to_string(problem.where.line) + ": " + problem.what +
             "\n";
    return all;
  }
  return "";
}

CurveResult result_of(const std::string& index) {
  return predict_curve(curves_of("r,1024,20,\nr,1073741824,4500,4400\n", index).front(),
                       STEPCAST_SOURCE_DIR);
}

TEST_CASE("a curve takes the shorter of out-of-place and in-place", "[validation]") {
  const std::vector<Curve> curves =
      curves_of("r,8,13.5,13\nr,16,12,\n", "r,H100,1,8,all_reduce,4-8,400,NVLink\n");
  REQUIRE(curves.size() == 1);
  REQUIRE(curves[0].nics == 8);
  REQUIRE(curves[0].points.size() == 2);
  REQUIRE(curves[0].points[0].measured == std::chrono::microseconds{13});
  REQUIRE(curves[0].points[1].measured == std::chrono::microseconds{12});
}

TEST_CASE("malformed tables of curves are refused", "[validation]") {
  const std::string sound = "r,H100,1,8,all_reduce,8,400,NVLink\n";
  REQUIRE(problems_of("x,8,1,\n", sound) == "c.csv:2: the index has no run_id 'x'\n");
  REQUIRE(problems_of("", sound) == "c.csv:0: has no points of the run_id 'r'\n");
  REQUIRE(problems_of("r,8,0,\n", sound) == "c.csv:2: a time must be more than 0\n");
  REQUIRE(problems_of("r,-8,1,\n", sound) ==
          "c.csv:2: size_bytes is '-8'; allowed: a whole number from 0 to 1125899906842624\n");
  REQUIRE(problems_of("r,8,1,\n", sound + sound) ==
          "i.csv:3: a line above has the run_id 'r' too\n");
  REQUIRE(problems_of("r,8,1,\n", "r,H100,0,8,all_reduce,8,400,NVLink\n") ==
          "i.csv:2: nodes is '0'; allowed: a whole number from 1 to 131072\n");
}

TEST_CASE("a curve runs on the cluster of its GPU, NICs and fabric", "[validation]") {
  REQUIRE(result_of("r,H100-SXM5-80G,1,8,all_reduce,0,0,NVLink4\n").cluster ==
          "topologies/dgx-h100.yaml");
  REQUIRE(result_of("r,H100,2,16,all_reduce,32,100,EFA 32x100G\n").cluster ==
          "topologies/aws-p5.yaml");
  REQUIRE(result_of("r,H100,2,16,all_gather,8,200,GPUDirect-TCPXO\n").cluster ==
          "topologies/gcp-a3-mega.yaml");
  REQUIRE(result_of("r,H200-SXM,2,2,all_reduce,1,400,RoCE\n").cluster ==
          "topologies/dgx-h200.yaml");
  REQUIRE(result_of("r,GB200,32,128,all_reduce,8,400,NVL72 x2\n").cluster ==
          "topologies/gb200-nvl72.yaml");
}

TEST_CASE("what cannot be predicted is told with its reason", "[validation]") {
  REQUIRE(result_of("r,GB300,1,4,all_reduce,8,400,NVL72\n").skipped ==
          "no cluster file for the GPU 'GB300'");
  REQUIRE(result_of("r,H100,2,16,all_gather,4,200,TCPX\n").skipped ==
          "no cluster file for H100 with 4 x 200 Gb/s per node (TCPX)");
  REQUIRE(result_of("r,H100,2,15,all_reduce,8,400,IB\n").skipped ==
          "15 GPUs do not spread evenly over 2 nodes");
  REQUIRE(result_of("r,H100,2,32,all_reduce,8,400,IB\n").skipped ==
          "32 GPUs do not fit on 2 nodes of topologies/dgx-h100.yaml");
  REQUIRE(result_of("r,H100,1,8,gather,8,400,NVLink\n").skipped ==
          "op is 'gather', which is not known");
}

// The medians of one point are its own error; the smallest size counts for the first only.
TEST_CASE("a curve is scored from 1 KiB, and above 64 MiB by itself", "[validation]") {
  const CurveResult result = result_of("r,H100,1,8,all_reduce,8,400,NVLink\n");
  REQUIRE(result.skipped.empty());
  REQUIRE(result.points == 2);
  REQUIRE(result.large_points == 1);
  REQUIRE_THAT(*result.median_large_abs_error,
               WithinRel(std::abs(result.curve.points[1].error()), 1e-12));
  REQUIRE(*result.median_large_abs_error < 0.2);
}

TEST_CASE("a forced ring is slower than what NCCL would choose with NVLink SHARP", "[validation]") {
  const CurveResult chosen = result_of("r,H100,1,8,all_reduce,0,0,NVLink4\n");
  const CurveResult ring = result_of("r,H100,1,8,all_reduce,0,0,NVLink4 NCCL_NVLS_ENABLE=0\n");
  REQUIRE(ring.curve.points[1].predicted > chosen.curve.points[1].predicted);
}

TEST_CASE("curves are shown in every form", "[validation]") {
  const std::vector<CurveResult> results{
      result_of("r,H100,1,8,all_reduce,8,400,NVLink\n"),
      result_of("r,GB300,1,4,all_reduce,8,400,\"NVL72, one\"\n")};
  REQUIRE(curve_table(results).find("  skipped: no cluster file for the GPU 'GB300'\n2 curves, 1 "
                                    "skipped;") != std::string::npos);
  REQUIRE(curve_markdown(results).find("| r | all_reduce | 1 | 8 | dgx-h100 | 2 |") !=
          std::string::npos);
  REQUIRE(curve_csv(results).find("r,all_reduce,,1024,2e-05,,,no cluster file for the GPU "
                                  "'GB300'\n") != std::string::npos);
  REQUIRE(curve_json(results).find("\"skipped\": \"no cluster file for the GPU 'GB300'\"") !=
          std::string::npos);
}

}  // namespace
