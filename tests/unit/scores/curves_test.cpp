// Curves of collectives: reading, the mapping to clusters, and what is skipped with which reason.
#include "sim/scores/curves.hpp"

#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

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
                       sim::test::source_dir());
}

TEST_CASE("a curve takes the shorter of out-of-place and in-place", "[scores]") {
  const std::vector<Curve> curves =
      curves_of("r,8,13.5,13\nr,16,12,\n", "r,H100,1,8,all_reduce,4-8,400,NVLink\n");
  REQUIRE(curves.size() == 1);
  REQUIRE(curves[0].nics == 8);
  REQUIRE(curves[0].points.size() == 2);
  REQUIRE(curves[0].points[0].measured == std::chrono::microseconds{13});
  REQUIRE(curves[0].points[1].measured == std::chrono::microseconds{12});
}

TEST_CASE("malformed tables of curves are refused", "[scores]") {
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

TEST_CASE("a curve runs on the cluster of its GPU, NICs and fabric", "[scores]") {
  REQUIRE(result_of("r,H100-SXM5-80G,1,8,all_reduce,0,0,NVLink4\n").cluster ==
          "topologies/dgx-h100.yaml");
  REQUIRE(result_of("r,H100,2,16,all_reduce,32,100,EFA 32x100G\n").cluster ==
          "topologies/aws-p5.yaml");
  REQUIRE(result_of("r,H100,2,16,all_gather,8,200,GPUDirect-TCPXO\n").cluster ==
          "topologies/gcp-a3-mega.yaml");
  REQUIRE(result_of("r,H200-SXM,2,2,all_reduce,1,400,RoCE\n").cluster ==
          "topologies/h200-roce.yaml");
  REQUIRE(result_of("r,H200-SXM,2,16,all_reduce,8,400,InfiniBand\n").cluster ==
          "topologies/dgx-h200.yaml");
  REQUIRE(result_of("r,B200-SXM,2,16,all_gather,8,400,RoCE 8x400G (A4)\n").cluster ==
          "topologies/gcp-a4.yaml");
  REQUIRE(result_of("r,H200,2,16,all_reduce,16,200,EFA\n").cluster == "topologies/aws-p5en.yaml");
  REQUIRE(result_of("r,B200,2,16,all_reduce,8,400,EFA\n").cluster == "topologies/aws-p6-b200.yaml");
  REQUIRE(result_of("r,H100,2,16,all_reduce,16,200,RoCE\n").cluster == "topologies/h100-roce.yaml");
  REQUIRE(result_of("r,A100,2,16,all_reduce,16,100,RoCEv2\n").cluster ==
          "topologies/oci-a100.yaml");
  REQUIRE(result_of("r,H100,2,16,all_gather,4,200,GPUDirect-TCPX\n").cluster ==
          "topologies/gcp-a3-high.yaml");
  REQUIRE(result_of("r,GB200,32,128,all_reduce,8,400,NVL72 x2\n").cluster ==
          "topologies/gb200-nvl72.yaml");
}

// 16 of 18 trays of each rack, counted as trays or as racks, with the NICs of a tray or of a rack.
TEST_CASE("racks with trays to spare are racks, whatever joins them", "[scores]") {
  const std::string racks = "topologies/gb200-nvl72.yaml";
  const CurveResult trays = result_of("r,GB200,32,128,all_reduce,4,400,RoCE\n");
  REQUIRE(trays.cluster == racks);
  REQUIRE(trays.skipped.empty());
  REQUIRE(trays.points == 2);
  for (const char* same :
       {"r,GB200,2,128,all_reduce,4,400,RoCE\n", "r,GB200,2,128,all_reduce,64,400,NVL72 + RoCE\n",
        "r,GB200 NVL72,32,128,all_reduce,8,400,2 x NVL72\n"})
    REQUIRE(result_of(same).curve.points[1].predicted == trays.curve.points[1].predicted);
  REQUIRE(result_of("r,GB200,32,128,all_reduce,4,400,InfiniBand NDR\n").cluster ==
          "validation/machines/gb200-nvl72-ib.yaml");
  REQUIRE(result_of("r,GB200,256,1024,all_gather,4,400,RoCE\n").skipped.empty());  // 64 of 16 racks
  REQUIRE(result_of("r,GB200,16,64,all_reduce,,,NVLink\n").cluster == racks);
  REQUIRE(result_of("r,MI300X,2,16,all_reduce,8,400,RoCE\n").cluster == "topologies/mi300x-8.yaml");
  REQUIRE(result_of("r,GB200,32,128,all_reduce,4,200,RoCE\n").skipped ==
          "no cluster file for GB200 with 4 x 200 Gb/s per node (RoCE)");
  REQUIRE(result_of("r,GB200,19,76,all_reduce,4,400,RoCE\n").skipped ==
          "76 GPUs are not the same number of trays of 4 on 2 to 4 racks");
}

TEST_CASE("what cannot be predicted is told with its reason", "[scores]") {
  REQUIRE(result_of("r,Gaudi3,1,4,all_reduce,8,400,NVL72\n").skipped ==
          "no cluster file for the GPU 'Gaudi3'");
  REQUIRE(result_of("r,H100,2,16,all_gather,2,200,TCPX\n").skipped ==
          "no cluster file for H100 with 2 x 200 Gb/s per node (TCPX)");
  REQUIRE(result_of("r,H100,2,15,all_reduce,8,400,IB\n").skipped ==
          "15 GPUs do not spread evenly over 2 nodes");
  REQUIRE(result_of("r,H100,2,32,all_reduce,8,400,IB\n").skipped ==
          "32 GPUs do not fit on 2 nodes of topologies/dgx-h100.yaml");
  REQUIRE(result_of("r,H100,1,8,gather,8,400,NVLink\n").skipped ==
          "op is 'gather', which is not known");
}

// The medians of one point are its own error; the smallest size counts for the first only.
TEST_CASE("a curve is scored from 1 KiB, and above 64 MiB by itself", "[scores]") {
  const CurveResult result = result_of("r,H100,1,8,all_reduce,8,400,NVLink\n");
  REQUIRE(result.skipped.empty());
  REQUIRE(result.points == 2);
  REQUIRE(result.large_points == 1);
  REQUIRE_THAT(*result.median_large_abs_error,
               WithinRel(std::abs(result.curve.points[1].error()), 1e-12));
  REQUIRE(*result.median_large_abs_error < 0.2);
}

TEST_CASE("a forced ring is slower than what NCCL would choose with NVLink SHARP", "[scores]") {
  const CurveResult chosen = result_of("r,H100,1,8,all_reduce,0,0,NVLink4\n");
  const CurveResult ring = result_of("r,H100,1,8,all_reduce,0,0,NVLink4 NCCL_NVLS_ENABLE=0\n");
  REQUIRE(ring.curve.points[1].predicted > chosen.curve.points[1].predicted);
}

TEST_CASE("remarks set the version, the thread blocks and what a loop adds", "[scores]") {
  const std::string header =
      "run_id,gpu,nodes,gpus,op,nics_per_node,nic_gbps,fabric,nccl_version,notes\n";
  const auto predicted = [&](const std::string& line) {
    const std::vector<Curve> curves =
        read_curves(CsvTable::parse(point_header + "r,1024,20,\nr,1073741824,4500,\n", "c.csv"),
                    CsvTable::parse(header + line + "\n", "i.csv"));
    return predict_curve(curves.front(), sim::test::source_dir()).curve.points;
  };
  const std::string one = "r,H100,1,8,all_reduce,0,0,NVLink4,2.30.1,";
  // 28 us by launches between two events.
  REQUIRE(predicted(one + "PyTorch bench")[0].predicted - predicted(one)[0].predicted ==
          std::chrono::microseconds{28});
  REQUIRE(predicted(one + "nccl-tests -n 50 -g 8; 1K")[0].predicted ==
          predicted(one + "PyTorch")[0].predicted);
  // Rings between nodes are held back by their 16 blocks, not by 24.
  const std::string ring = "r,H100,2,16,all_reduce,8,400,InfiniBand,,NCCL_ALGO=Ring";
  REQUIRE(predicted(ring)[1].predicted > predicted(ring + " NCCL_MIN_CTAS=24")[1].predicted);
  // Before 2.28 NVLS goes on as a tree over four nodes where later ones take rings.
  const std::string four = "r,H100,4,32,all_reduce,8,400,InfiniBand,";
  REQUIRE(predicted(four + "2.26.2,")[1].predicted != predicted(four + "2.30.1,")[1].predicted);
}

TEST_CASE("a NIC on the other socket carries what such paths were measured at", "[scores]") {
  const CurveResult apart =
      result_of("r,H200-SXM,2,2,all_reduce,1,400,RoCE on different sockets\n");
  REQUIRE(apart.cluster == "validation/machines/h200-roce-apart.yaml");
  // Half the bytes of an all-reduce between two ranks pass a rank twice.
  const double rate = 1073741824 / to_seconds(apart.curve.points[1].predicted);
  CHECK_THAT(rate, WithinRel(30.8e9, 0.01));
  CHECK_THAT(rate, WithinRel(31.89e9, 0.04));  // on an H200 server
  CHECK_THAT(rate, WithinRel(29.68e9, 0.04));  // on one with B200
}

// Bounds of every curve that the project carries: the goals of validation/CURVES.md.
TEST_CASE("the published curves are within 12%, and within 5% above 64 MiB", "[scores]") {
  const std::string folder = sim::test::source_dir() + "/validation/curves/";
  const std::vector<Curve> curves =
      read_curves(CsvTable::load(folder + "curves.csv"), CsvTable::load(folder + "index.csv"));
  REQUIRE(curves.size() == 59);
  for (const Curve& curve : curves) {
    CAPTURE(curve.id);
    const CurveResult result = predict_curve(curve, sim::test::source_dir());
    REQUIRE(result.skipped.empty());
    CHECK(*result.median_abs_error < 0.12);
    if (result.median_large_abs_error) CHECK(*result.median_large_abs_error < 0.05);
  }
}

TEST_CASE("curves are shown in every form", "[scores]") {
  const std::vector<CurveResult> results{
      result_of("r,H100,1,8,all_reduce,8,400,NVLink\n"),
      result_of("r,Gaudi3,1,4,all_reduce,8,400,\"NVL72, one\"\n")};
  REQUIRE(curve_table(results).find("  skipped: no cluster file for the GPU 'Gaudi3'\n2 curves, 1 "
                                    "skipped;") != std::string::npos);
  REQUIRE(curve_markdown(results).find("| r | all_reduce | 1 | 8 | dgx-h100 | 2 |") !=
          std::string::npos);
  REQUIRE(curve_csv(results).find("r,all_reduce,,1024,2e-05,,,no cluster file for the GPU "
                                  "'Gaudi3'\n") != std::string::npos);
  REQUIRE(curve_json(results).find("\"skipped\": \"no cluster file for the GPU 'Gaudi3'\"") !=
          std::string::npos);
}

}  // namespace
