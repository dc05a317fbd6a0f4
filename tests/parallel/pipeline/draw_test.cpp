#include <doctest/doctest.h>

#include <string>

#include <parallel/pipeline/draw.hpp>
#include <parallel/pipeline/schedules.hpp>

namespace draw_test {

using namespace parallel::pipeline;

TEST_CASE("drawing: a schedule as text") {
  CHECK(to_string(one_f_one_b(2, 3)) ==
        "rank 0  F0 F1 .. .. B0 -- F2 B1 -- .. B2 --\n"
        "rank 1  .. F0 B0 -- F1 B1 -- F2 B2 -- .. ..\n"
        "1f1b: 2 ranks, 3 microbatches, 12 units of time, 25 % idle\n");
  CHECK(to_string(zb_v(1, 1)) ==
        "rank 0  0F0 1F0 1I0 1W0 0I0 0W0\n"
        "zb-v: 1 ranks, 1 microbatches, 6 units of time, 0 % idle\n");
}

TEST_CASE("drawing: a schedule in PyTorch's CSV form") {
  CHECK(csv_of(one_f_one_b(2, 2)) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(csv_of(zb_h1(2, 2)) == "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST_CASE("drawing: a picture has a box for every action and is well formed") {
  auto const drawn = dual_pipe_v(3, 6);
  auto const svg = svg_of(drawn);
  auto const count = [&](std::string const& text) {
    int n = 0;
    for (auto position = svg.find(text); position != std::string::npos;
         position = svg.find(text, position + 1))
      ++n;
    return n;
  };
  std::size_t actions = 0;
  for (auto const& list : drawn.by_rank) actions += list.size();
  CHECK(count("<title>") == static_cast<int>(actions));
  CHECK(count("<text") == count("</text>"));
  CHECK(svg.find("<svg ") == 0);
  CHECK(svg.substr(svg.size() - 7) == "</svg>\n");
}

TEST_CASE("drawing: a broken schedule is refused") {
  auto drawn = gpipe(2, 2);
  drawn.by_rank[0].pop_back();
  CHECK_THROWS_AS((void)to_string(drawn), parallel::error);
  CHECK_THROWS_AS((void)svg_of(drawn), parallel::error);
  CHECK_THROWS_AS((void)csv_of(drawn), parallel::error);
}

}  // namespace draw_test
