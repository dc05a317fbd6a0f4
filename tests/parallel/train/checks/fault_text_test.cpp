// The descriptions of faults.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/train/checks/fault_text.hpp>

namespace fault_text_test {

using namespace parallel::train;

std::string described(std::vector<fingerprint_fault> const& faults) {
  return to_string(
      faults, [](int unit) { return "unit" + std::to_string(unit); },
      [](int rank) { return "node" + std::to_string(rank / 2); });
}

TEST_CASE("fault text: ranks, machines and units are named, in one sentence for similar faults") {
  using enum fingerprint_kind;
  CHECK(described({}) == "");
  CHECK(described({{{.unit = 1}, {3}, false}}) ==
        "rank 3 (node1) computed wrong gradients of unit1 once and the right ones again");
  CHECK(described({{{.unit = 1}, {3}}, {{.unit = 1, .piece = 2}, {3}}, {{.unit = 2}, {3}}}) ==
        "rank 3 (node1) computes wrong gradients of unit1, unit2 every time");
  std::vector<fingerprint_fault> faults_of_units;
  for (int unit = 0; unit < 5; ++unit) faults_of_units.push_back({{.unit = unit}, {2, 5}});
  CHECK(described(faults_of_units) ==
        "ranks 2 (node1), 5 (node2) compute wrong gradients of unit0, unit1, unit2 and 2 more "
        "every time");
  CHECK(described({{{.unit = 1}, {0, 1}, true, false}}) ==
        "ranks 0 (node0), 1 (node0) compute different gradients of unit1 from the same data every "
        "time, and one of them is wrong");
  CHECK(described({{{.unit = 1}, {0}, true, false}}) ==
        "rank 0 (node0) gets other gradients of unit1 each time");
  CHECK(
      described({{{.kind = values, .unit = 1}, {4}}, {{.kind = states, .unit = 1}, {4}, false}}) ==
      "rank 4 (node2) holds other values of unit1 than its copies do; rank 4 (node2) read wrong "
      "optimizer states of unit1 once and the right ones again");
  CHECK(described({{{.kind = states, .unit = 1}, {4, 6}, true, false}}) ==
        "ranks 4 (node2), 6 (node3) hold different optimizer states of unit1 that should be the "
        "same, and one of them is wrong");
}

}  // namespace fault_text_test
