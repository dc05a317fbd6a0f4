#include <doctest/doctest.h>

#include <mpt/eval/icl_report.hpp>
#include <mpt/yaml/document.hpp>

#include "mpt/data/scratch.hpp"
#include "support/data.hpp"

namespace gauntlet_test {

using namespace mpt::eval;

/// A task with `rows` rows of which `right` are.
task_result result(char const* label, std::int64_t shots, std::size_t rows, std::size_t right) {
  task_result out{.label = label, .kind = task_kind::schema, .shots = shots};
  out.parts.push_back({"", std::vector<row_result>(rows)});
  for (std::size_t i = 0; i < right; ++i) out.parts[0].rows[i].is_correct = true;
  return out;
}

gauntlet_config read(std::string const& yaml) {
  mpt::config_report report;
  auto const document = mpt::make_document(yaml, "g.yaml");
  mpt::config_reader reader(document, "", report);
  auto out = read_eval_gauntlet(reader, "g.yaml");
  REQUIRE(out.has_value());
  return *out;
}

std::string const two = R"(
  categories:
  - name: reading
    benchmarks:
    - {name: a, num_fewshot: 0, random_baseline: 0.5}
    - {name: b, num_fewshot: 3, random_baseline: 0}
  - name: reasoning
    benchmarks: [{name: c, num_fewshot: 1, random_baseline: 0.25}]
)";

TEST_CASE("gauntlet: scores are above chance, rescaled and averaged by category") {
  auto const config = read("eval_gauntlet:\n  averages: {core: [reading, reasoning]}" + two);
  std::vector<task_result> const tasks{result("a", 0, 8, 6), result("b", 3, 4, 1),
                                       result("c", 1, 4, 4), result("c", 0, 4, 0)};
  auto const scores = score_gauntlet(config, tasks);
  REQUIRE(scores.categories.size() == 2);
  CHECK(scores.categories[0].second == doctest::Approx((0.5 + 0.25) / 2));
  CHECK(scores.categories[1].second == doctest::Approx(1.0));
  CHECK(scores.averages[0].first == "core");
  CHECK(scores.averages[0].second == doctest::Approx((0.375 + 1) / 2));
  CHECK(scores.missing.empty());
}

TEST_CASE("gauntlet: weights are numbers of rows or their logarithms") {
  std::vector<task_result> const tasks{result("a", 0, 8, 8), result("b", 3, 4, 0),
                                       result("c", 1, 4, 4)};
  auto const plain = "  subtract_random_baseline: false\n  rescale_accuracy: false" + two;
  auto scores = score_gauntlet(read("eval_gauntlet:\n  weighting: SAMPLE_SZ\n" + plain), tasks);
  CHECK(scores.categories[0].second == doctest::Approx(8.0 / 12));
  CHECK(scores.averages[0].first == "default_average");
  scores = score_gauntlet(read("eval_gauntlet:\n  weighting: LOG_SAMPLE_SZ\n" + plain), tasks);
  CHECK(scores.categories[0].second == doctest::Approx(3.0 / 5));
}

TEST_CASE("gauntlet: a category that lacks a benchmark has no score and is left out of averages") {
  auto const config = read("eval_gauntlet:" + two);
  std::vector<task_result> tasks{result("a", 0, 2, 2), result("c", 1, 4, 4)};
  auto scores = score_gauntlet(config, tasks);
  REQUIRE(scores.missing.size() == 1);
  CHECK(scores.missing[0] == std::pair<std::string, std::string>("reading", "b/3-shot"));
  CHECK(scores.averages[0].second == doctest::Approx(1.0));
  tasks.pop_back();
  CHECK(score_gauntlet(config, tasks).averages[0].second == 0);
}

TEST_CASE("gauntlet: errors name the location of a wrong value") {
  auto const error = [](std::string const& yaml) {
    return data_test::message_of([&] { static_cast<void>(read(yaml)); });
  };
  CHECK(error("eval_gauntlet:\n  subtract_random_baseline: false" + two) ==
        "g.yaml:2:3: eval_gauntlet.rescale_accuracy: needs subtract_random_baseline: true");
  CHECK(error("eval_gauntlet:\n  averages: {reading: [reading]}" + two) ==
        "g.yaml:2:23: eval_gauntlet.averages.reading: is a category's name, too; give the average "
        "another");
  CHECK(error("eval_gauntlet: {categories: []}") ==
        "g.yaml:1:29: eval_gauntlet.categories: expected a list of mappings");
}

TEST_CASE("gauntlet: LLM Foundry's own gauntlets are read") {
  auto const data = test::data_folder();
  if (data.empty() || !std::filesystem::exists(data / "eval/yamls")) return;
  mpt::config_report report;
  auto const found = read_gauntlet_file(data / "eval/yamls/eval_gauntlet_v0.3.yaml", report);
  CHECK(found.categories.size() == 5);
  CHECK(found.averages[0].second.size() == 5);
  CHECK(read_gauntlet_file(data / "eval/yamls/eval_gauntlet.yaml", report).categories.size() > 5);
}

}  // namespace gauntlet_test
