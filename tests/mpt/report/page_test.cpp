// A page is small, whole, and shows names as text.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/report/page.hpp>
#include <mpt/report/run_record.hpp>

namespace report_page_test {

std::string const hostile = "</title><script>alert(1)</script><img src=x onerror='alert(2)'>&\"";

mpt::report::run_record long_run(std::string name, std::int64_t batches) {
  mpt::report::run_record run;
  run.name = std::move(name);
  run.folder = run.name;
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    double const wave = std::sin(static_cast<double>(batch) / 10);
    for (auto const* const metric :
         {"loss/train/total", "metrics/train/TokenAccuracy", "l2_norm/grad/before_clipping",
          "throughput/tokens_per_sec", "throughput/device/mfu", "throughput/device/mfu_causal",
          "memory/peak_allocated_mem", "memory/current_allocated_mem", "lr-DecoupledAdamW/group0",
          "time/token", "seconds of batch"})
      run.curves[metric].add(batch, 3.25 + wave / 7);
    if (batch % 500 == 0) run.curves["metrics/eval/LanguageCrossEntropy"].add(batch, 3 + wave);
  }
  return run;
}

std::size_t count(std::string const& page, std::string const& part) {
  std::size_t out = 0;
  for (auto i = page.find(part); i != std::string::npos; i = page.find(part, i + 1)) ++out;
  return out;
}

TEST_CASE("report page: 50 000 batches of one run, and of eight, take less than 2 MB") {
  CHECK(mpt::report::page_of({long_run("one", 50'000)}, "").size() < 2'000'000);
  std::vector<mpt::report::run_record> runs;
  for (int i = 0; i < 8; ++i) runs.push_back(long_run("run " + std::to_string(i), 50'000));
  CHECK(mpt::report::page_of(runs, "").size() < 2'000'000);
}

TEST_CASE("report page: names, keys, notes and texts with markup are shown as text") {
  auto run = long_run(hostile, 20);
  run.notes.push_back({1, hostile});
  run.samples.push_back({2, "generations/0", hostile});
  run.problems.push_back(hostile);
  run.start = {{"model", hostile}, {"configuration", {{hostile, hostile}}}};
  auto other = run;
  other.name += "2";
  other.start["configuration"][hostile] = "different " + hostile;
  auto const harmless = mpt::report::page_of({long_run("one", 20), long_run("two", 20)}, "");
  for (auto const& page :
       {mpt::report::page_of({run}, ""), mpt::report::page_of({run, other}, hostile)}) {
    CHECK(page.find("<script>alert") == std::string::npos);
    CHECK(page.find("<img src=x") == std::string::npos);
    CHECK(count(page, "<script") == count(harmless, "<script"));
    CHECK(count(page, "</script") == count(harmless, "</script"));
    CHECK(count(page, "&lt;img src=x onerror=&#39;alert(2)&#39;&gt;") >= 4);
  }
}

TEST_CASE("report page: every chart has a table, and nothing comes from a network") {
  auto const page = mpt::report::page_of({long_run("one", 100)}, "");
  CHECK(count(page, "<figure ") == 7);
  CHECK(count(page, "</details></figure>") == 7);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(count(page, " src=\"") == 0);
  CHECK(count(page, "<link") == 1);
  CHECK(count(page, "<link rel=\"icon\" href=\"data:") == 1);
  CHECK((count(page, "class=\"chart\"") == 7) == mpt::report::has_charts());
  CHECK((page.find("apt-get install libjs-dygraphs") == std::string::npos) ==
        mpt::report::has_charts());
}

TEST_CASE("report page: every logged number is in a table that can be searched") {
  auto run = long_run("one", 10);
  run.curves["l2_norm/moment/block<3>"].add(5, 0.125);
  run.curves["l2_norm/moment/block<3>"].add(10, 0.25);
  auto const page = mpt::report::page_of({run, long_run("two", 10)}, "");
  CHECK(count(page, "data-table=\"all-metrics\"") == 1);
  CHECK(page.find("<th scope=\"row\">l2_norm/moment/block&lt;3&gt;</th><td>0.25</td><td>0.125</td>"
                  "<td>0.25</td><td>–</td><td>–</td><td>–</td>") != std::string::npos);
  CHECK(page.find("<th scope=\"row\">seconds of batch</th>") == std::string::npos);
  if (mpt::report::has_charts())
    CHECK(page.find(R"("x":[5,10],"y":[0.125,0.25],"name":"one","run":0)") != std::string::npos);
}

TEST_CASE("report page: how far a running run is, why one failed, and how it was started") {
  auto run = long_run("one", 250);
  run.start = {{"command", "pretrain 'a b.yaml' <x>"},
               {"machine", "node7"},
               {"configuration", {{"seed", "17"}}}};
  run.programs = {{.first_batch = 1, .last_batch = 250, .total_batches = 1000}};
  run.writer = mpt::report::writer_state::alive;
  run.seconds_left = 3723;
  auto const running = mpt::report::page_of({run}, "");
  CHECK(running.find("<span class=\"badge good\">running</span>") != std::string::npos);
  CHECK(running.find("<p>Batch 250 of 1,000 (25.0 %, 1:02:03 left)<progress max=\"1000\" "
                     "value=\"250\">") != std::string::npos);
  CHECK(running.find(
            "<th scope=\"row\">command</th><td>pretrain &#39;a b.yaml&#39; &lt;x&gt;</td>") !=
        std::string::npos);
  CHECK(running.find("<th scope=\"row\">machine of rank 0</th><td>node7</td>") !=
        std::string::npos);
  CHECK(running.find("<th scope=\"row\">commit there</th>") == std::string::npos);
  CHECK(count(running, "data-table=\"keys\"") == 1);
  run.programs.back().failure = "batch 250: the loss is <nan>";
  auto const failed = mpt::report::page_of({run}, "");
  CHECK(failed.find("<span class=\"badge open\">failed</span>") != std::string::npos);
  CHECK(failed.find("<p class=\"reason\">batch 250: the loss is &lt;nan&gt;</p>") !=
        std::string::npos);
  CHECK(failed.find("<progress") == std::string::npos);
}

TEST_CASE("report page: every evaluation set has a row, and the comparison names its own") {
  auto const run = [](std::string name, std::vector<std::string> const& labels, double loss) {
    auto out = long_run(std::move(name), 20);
    out.curves.erase("metrics/eval/LanguageCrossEntropy");
    for (auto const& label : labels) {
      out.curves["metrics/eval/" + label + "/LanguageCrossEntropy"].add(20, loss);
      out.curves["metrics/eval/" + label + "/TokenAccuracy"].add(20, 0.125);
      loss += 1;
    }
    return out;
  };
  auto const single = mpt::report::page_of({run("one", {"books", "c4"}, 2)}, "");
  CHECK(
      single.find("<dd>2.0000</dd><dd class=\"detail\">lowest 2.0000 at batch 20, on books</dd>") !=
      std::string::npos);
  CHECK(single.find("<th scope=\"row\">books</th><td>2.0000</td><td>7.39</td>") !=
        std::string::npos);
  CHECK(single.find("<th scope=\"row\">c4</th><td>3.0000</td><td>20.09</td>") != std::string::npos);
  auto const compared =
      mpt::report::page_of({run("one", {"books", "c4"}, 2), run("two", {"c4"}, 2.5)}, "");
  CHECK(compared.find("<th scope=\"col\">eval loss (c4)</th>") != std::string::npos);
  CHECK(compared.find("<td>3.0000</td>") != std::string::npos);
  CHECK(compared.find("<td><strong>2.5000</strong></td>") != std::string::npos);
  auto const different = mpt::report::page_of({run("one", {"a"}, 2), run("two", {"b"}, 2.5)}, "");
  CHECK(different.find("eval loss") == std::string::npos);
  CHECK(different.find("evaluations, which are on different sets, are below") != std::string::npos);
  CHECK(count(mpt::report::page_of({long_run("one", 500)}, ""), "Evaluation by set") == 0);
}

TEST_CASE("report page: memory of the ranks over time, of many ranks the most and the least") {
  auto run = long_run("one", 100);
  for (int rank = 0; rank < 4; ++rank) {
    auto& points = run.memory_by_rank.emplace_back();
    points.add(50, 1024.0 * (rank + 1));
    points.add(100, 2048.0 * (rank + 1));
  }
  auto const page_of_few = mpt::report::page_of({run}, "");
  CHECK(page_of_few.find("figure-ranks") != std::string::npos);
  CHECK(page_of_few.find("<th scope=\"col\">rank 3</th>") != std::string::npos);
  CHECK(page_of_few.find("<th scope=\"row\">100</th><td>2 KiB</td><td>4 KiB</td><td>6 KiB</td>") !=
        std::string::npos);
  while (run.memory_by_rank.size() < 20) run.memory_by_rank.push_back(run.memory_by_rank.front());
  auto const page_of_many = mpt::report::page_of({run}, "");
  CHECK(page_of_many.find("<th scope=\"col\">the least of a rank</th>") != std::string::npos);
  CHECK(page_of_many.find("<th scope=\"row\">100</th><td>8 KiB</td><td>2 KiB</td>") !=
        std::string::npos);
}

TEST_CASE("report page: keys that differ between runs have a separate table") {
  auto a = long_run("a", 3), b = long_run("b", 3);
  a.start = {{"configuration", {{"seed", "17"}, {"optimizer.lr", "1.0e-3"}}}};
  b.start = {
      {"configuration", {{"seed", "17"}, {"optimizer.lr", "2.0e-3"}, {"precision", "fp32"}}}};
  auto const page = mpt::report::page_of({a, b}, "");
  auto const different = page.find("Keys that differ"), equal = page.find("Keys that are the same");
  REQUIRE(different < equal);
  auto const apart = page.substr(different, equal - different), together = page.substr(equal);
  CHECK(apart.find("optimizer.lr") != std::string::npos);
  CHECK(apart.find("<i>not set</i>") != std::string::npos);
  CHECK(apart.find("seed") == std::string::npos);
  CHECK(together.find("seed") != std::string::npos);
}

}  // namespace report_page_test

namespace report_html_test {

TEST_CASE("report html: markup, control characters and bytes that are not UTF-8 are text") {
  CHECK(mpt::report::escape("<b a='1'>\"&amp;") == "&lt;b a=&#39;1&#39;&gt;&quot;&amp;amp;");
  CHECK(mpt::report::escape("a\x1b[31m\x07\nb\xff") ==
        "a\xEF\xBF\xBD[31m\xEF\xBF\xBD\nb\xEF\xBF\xBD");
  CHECK(mpt::report::escape("größer → 1") == "größer → 1");
}

TEST_CASE("report html: no text ends the script element that holds it") {
  std::string const hostile = "</script><!--<script>\xE2\x80\xA8";
  auto const text = mpt::report::json_in_script({{"name", hostile}});
  CHECK(text.find('<') == std::string::npos);
  CHECK(nlohmann::json::parse(text).at("name") == hostile);
}

TEST_CASE("report html: base64 is that of RFC 4648") {
  CHECK(mpt::report::base64("").empty());
  CHECK(mpt::report::base64("f") == "Zg==");
  CHECK(mpt::report::base64("fo") == "Zm8=");
  CHECK(mpt::report::base64("foo") == "Zm9v");
  CHECK(mpt::report::base64("foobar") == "Zm9vYmFy");
  CHECK(mpt::report::base64("\xff\xfe\xfd") == "//79");
}

}  // namespace report_html_test
