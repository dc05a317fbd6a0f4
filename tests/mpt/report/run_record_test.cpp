// A run is read from its journal, its metrics and its summary, whichever of them are there and
// sound.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/report/run_facts.hpp>
#include <mpt/report/run_record.hpp>
#include <parallel/checkpoint/claims/claim_file.hpp>
#include <parallel/checkpoint/claims/this_process.hpp>
#include <parallel/support/files.hpp>

namespace report_run_record_test {

using test::write_all;

std::string batch_line(int batch, double seconds, double loss) {
  return "{\"time/batch\":" + std::to_string(batch) +
         ",\"time/token\":" + std::to_string(64 * batch) +
         ",\"time/val\":0.001,\"time/train_seconds\":" + std::to_string(seconds) +
         ",\"time/data_wait_share\":0.25,\"time/checkpoint_blocked\":0.5,\"loss/train/total\":" +
         std::to_string(loss) + "}\n";
}

/// A run that trained 6 batches of one second, was killed, and trained batches 5 to 8 again.
void write_resumed_run(std::filesystem::path const& folder) {
  std::filesystem::create_directories(folder);
  std::string metrics;
  for (int batch = 1; batch <= 6; ++batch) metrics += batch_line(batch, batch, 9 - batch);
  for (int batch = 5; batch <= 8; ++batch) metrics += batch_line(batch, batch - 4, 1);
  write_all(folder / "metrics.jsonl", metrics);
  auto const start = [](double time) {
    return "{\"event\":\"start\",\"time\":" + std::to_string(time) +
           ",\"program_seconds\":2,\"run_name\":\"two\",\"metrics_file\":\"/moved/metrics.jsonl\","
           "\"configuration\":{\"seed\":\"17\"}}\n";
  };
  write_all(
      folder / "run.jsonl",
      start(1000) + "{\"event\":\"train\",\"time\":1003,\"batches\":0}\n" +
          "{\"event\":\"note\",\"time\":1004,\"batch\":3,\"text\":\"rank 1 is slow\"}\n" +
          start(2000) + "{\"event\":\"train\",\"time\":2001,\"batches\":4}\n" +
          "{\"event\":\"end\",\"time\":2010,\"batches\":8,\"batches_here\":4,\"stopped\":false,"
          "\"training_seconds\":4,\"data_wait_share\":0.5,\"evaluation_seconds\":1,"
          "\"saving_seconds\":0.5,\"wall_clock_seconds\":10}\n");
}

TEST_CASE("run record: batches that were trained again count once, and their first time as lost") {
  test::temporary_folder const folder;
  write_resumed_run(folder / "run");
  auto const run = mpt::report::read_run(folder / "run");
  CHECK(run.problems.empty());
  CHECK(run.name == "two");
  CHECK(run.is_complete());
  auto const& loss = run.find("loss/train/total");
  CHECK(loss.batches == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(loss.values == std::vector<double>{8, 7, 6, 5, 1, 1, 1, 1});
  REQUIRE(run.programs.size() == 2);
  auto const& killed = run.programs[0];
  CHECK(!killed.is_ended);
  CHECK(killed.first_batch == 1);
  CHECK(killed.last_batch == 6);
  CHECK(killed.spent.start == doctest::Approx(5));
  CHECK(killed.spent.lost == doctest::Approx(2));
  CHECK(killed.spent.training == doctest::Approx(3));
  CHECK(killed.spent.data == doctest::Approx(1));
  CHECK(killed.spent.evaluation == doctest::Approx(3.6));  // logged in hours
  CHECK(killed.spent.saving == doctest::Approx(0.5));
  auto const& ended = run.programs[1];
  CHECK(ended.spent.start == doctest::Approx(3));
  CHECK(ended.spent.training == doctest::Approx(2));
  CHECK(ended.spent.data == doctest::Approx(2));
  CHECK(ended.spent.remaining == doctest::Approx(1.5));
  CHECK(ended.spent.total() == doctest::Approx(10));
  CHECK(run.spent().goodput() == doctest::Approx(8 / run.spent().total()));
  REQUIRE(run.notes.size() == 1);
  CHECK(run.notes[0].batch == 3);
}

TEST_CASE("run record: a program that was killed before its first batch takes no other's metrics") {
  test::temporary_folder const folder;
  write_resumed_run(folder.path());
  auto const journal = test::read_all(folder / "run.jsonl");
  auto const begins = journal.find("{\"event\":\"start\"", 1);
  write_all(folder / "run.jsonl", journal.substr(0, begins) + journal);
  auto const run = mpt::report::read_run(folder.path());
  REQUIRE(run.programs.size() == 3);
  CHECK(run.programs[0].spent.training == 0);
  CHECK(run.programs[1].spent.training == doctest::Approx(3));
  CHECK(run.programs[2].spent.training == doctest::Approx(2));
}

TEST_CASE("run record: it says whether a run trains, has failed and why, or was killed") {
  namespace checkpoint = parallel::checkpoint;
  auto const start = std::string("{\"event\":\"start\",\"time\":1000,\"run_name\":\"r\"}\n") +
                     "{\"event\":\"train\",\"time\":1003,\"batches\":0,\"total_batches\":40}\n";
  auto const end = [](bool is_stopped) {
    return std::string("{\"event\":\"end\",\"time\":1010,\"batches\":8,\"stopped\":") +
           (is_stopped ? "true}\n" : "false}\n");
  };
  auto const failed = "{\"event\":\"failed\",\"time\":1010,\"text\":\"the loss is not finite\"}\n";
  auto const claim = [](std::string const& scope, std::string const& number) {
    return checkpoint::claim_files::format(
        {.text = {}, .token = "t", .holder = "h", .scope = scope, .number = number, .series = ""});
  };
  auto const own_scope = checkpoint::scope_of_processes();
  auto const alive = claim(own_scope, checkpoint::number_of_this_process());
  auto ended = alive;
  ended.replace(ended.rfind("beat "), std::string::npos, checkpoint::claim_files::ended_text);
  struct row {
    std::string journal, claim, state;
  };
  for (auto const& [journal, claim_text, state] :
       {row{start + end(false), ended, "complete"},
        row{start + end(true), ended, "stopped by a signal"}, row{start + failed, ended, "failed"},
        row{start, ended, "failed"}, row{start, alive, "running"},
        row{start, claim("another machine", "7/7"), "running"},
        row{start, claim(own_scope, "1/1"), "killed"}, row{start, "", "not ended"}}) {
    test::temporary_folder const folder;
    write_all(folder / "run.jsonl", journal);
    if (!claim_text.empty()) write_all(folder / ".lock-3", claim_text);
    auto const run = mpt::report::read_run(folder.path());
    CHECK(facts_of(run).state == state);
    CHECK(run.programs.back().total_batches == 40);
    if (journal == start + failed) CHECK(run.programs.back().failure == "the loss is not finite");
    if (state != "running") continue;
    std::filesystem::last_write_time(
        folder / ".lock-3", std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    CHECK(facts_of(mpt::report::read_run(folder.path())).state == "killed");
  }
}

TEST_CASE("run record: a folder that was copied has its own curves, not those of the original") {
  test::temporary_folder const folder;
  auto const original = folder / "a" / "saves";
  std::filesystem::create_directories(original);
  for (bool const is_old_journal : {false, true}) {
    auto const metrics = folder / "a" / "metrics.jsonl";
    nlohmann::json start{{"event", "start"}, {"time", 1}, {"metrics_file", metrics.string()}};
    if (!is_old_journal) start["save_folder"] = original.string();
    write_all(original / "run.jsonl", start.dump() + "\n");
    write_all(metrics, batch_line(1, 1, 3));
    std::filesystem::remove_all(folder / "b");
    std::filesystem::copy(folder / "a", folder / "b", std::filesystem::copy_options::recursive);
    write_all(metrics, batch_line(1, 1, 3) + batch_line(2, 2, 2));  // the original goes on
    auto const last_batch = [&](std::filesystem::path const& path) {
      return mpt::report::read_run(path).find("loss/train/total").batches.back();
    };
    CHECK(last_batch(folder / "a") == 2);
    CHECK(last_batch(original) == 2);
    CHECK(last_batch(folder / "b") == 1);
    if (is_old_journal) continue;
    CHECK(last_batch(folder / "b" / "saves") == 1);
    std::filesystem::remove(folder / "b" / "metrics.jsonl");
    auto const copy = mpt::report::read_run(folder / "b");
    CHECK(copy.find("loss/train/total").empty());
    CHECK(copy.problems ==
          std::vector<std::string>{metrics.string() +
                                   ": is the metrics_file of the folder of which this one is a "
                                   "copy, so its curves are not shown; copy it into " +
                                   (folder / "b").string() + ", too"});
  }
}

TEST_CASE("run record: damaged lines are named with file and line, and the rest is read") {
  test::temporary_folder const folder;
  auto const file = folder / "metrics.jsonl";
  write_all(file, batch_line(1, 1, 3) + "{\"time/batch\":2,\n[1]\n" + batch_line(3, 3, 2) +
                      "{\"loss\":1}\n" +
                      "{\"time/batch\":4,\"loss/train/total\":null,\"time/train_seconds\":4}\n" +
                      "{\"time/ba");
  auto const run = mpt::report::read_run(file);
  CHECK(run.find("loss/train/total").batches == std::vector<std::int64_t>{1, 3, 4});
  REQUIRE(run.problems.size() == 4);
  CHECK(run.problems[0] ==
        file.string() + ": line 2 is no JSON and is left out: {\"time/batch\":2,");
  CHECK(run.problems[1] == file.string() + ": line 3 is no JSON object and is left out: [1]");
  CHECK(run.problems[2] ==
        file.string() + ": line 5 has no batch (time/batch) and is left out: {\"loss\":1}");
  CHECK(run.problems[3] == file.string() + ": 1 more lines are damaged and left out");
}

TEST_CASE("run record: a cut-off last line is told from a wrong one") {
  test::temporary_folder const folder;
  write_all(folder / "metrics.jsonl", batch_line(1, 1, 3) + "{\"time/batch\":2,\"lo");
  auto const run = mpt::report::read_run(folder.path());
  REQUIRE(run.problems.size() == 1);
  CHECK(run.problems[0].find("line 2 is cut off and is left out") != std::string::npos);
}

TEST_CASE("run record: a folder without a run, or with several, is refused") {
  test::temporary_folder const folder;
  auto const message = [&](std::filesystem::path const& path) {
    return test::message_of([&] { static_cast<void>(mpt::report::read_run(path)); });
  };
  CHECK(message(folder.path()).find("there is no run here: expected run.jsonl") !=
        std::string::npos);
  CHECK(message(folder / "none").find("there is no such folder or file") != std::string::npos);
  write_resumed_run(folder / "a");
  CHECK(mpt::report::read_run(folder.path()).name == "two");
  write_resumed_run(folder / "b");
  CHECK(message(folder.path()).find("holds several runs (a, b); name those") != std::string::npos);
}

TEST_CASE("run record: the memory of ranks by batch; what a resumed run repeats replaces it") {
  test::temporary_folder const folder;
  auto const event = [](std::string const& fields) { return "{\"time\":1000," + fields + "}\n"; };
  auto const memory = [&](int batch, std::string const& bytes) {
    return event("\"event\":\"memory\",\"batch\":" + std::to_string(batch) +
                 ",\"device_bytes\":" + bytes);
  };
  write_all(folder / "run.jsonl",
            event("\"event\":\"start\"") + event("\"event\":\"train\",\"batches\":0") +
                memory(50, "[10,20]") + memory(100, "[11,21]") + memory(150, "[12,\"x\"]") +
                event("\"event\":\"start\"") + event("\"event\":\"train\",\"batches\":60") +
                memory(110, "[13,23]") + memory(110, "[14,24]"));
  auto const run = mpt::report::read_run(folder.path());
  REQUIRE(run.memory_by_rank.size() == 2);
  CHECK(run.memory_by_rank[0].batches == std::vector<std::int64_t>{50, 110});
  CHECK(run.memory_by_rank[0].values == std::vector<double>{10, 14});
  CHECK(run.memory_by_rank[1].values == std::vector<double>{20, 24});
  REQUIRE(!run.problems.empty());
  CHECK(run.problems[0].find("run.jsonl: line 5 has no list of numbers (device_bytes)") !=
        std::string::npos);
}

/// A run that was evaluated on some sets, in the order of their names.
mpt::report::run_record evaluated_run(std::vector<std::string> const& labels) {
  mpt::report::run_record run;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    auto const prefix = "metrics/eval/" + labels[i] + (labels[i].empty() ? "" : "/");
    run.curves[prefix + "LanguageCrossEntropy"].add(10, 3 + static_cast<double>(i));
    run.curves[prefix + "LanguageCrossEntropy"].add(20, 4 + static_cast<double>(i));
    run.curves[prefix + "TokenAccuracy"].add(20, 0.25);
  }
  return run;
}

TEST_CASE("run facts: evaluations by set, the first of eval_loader first") {
  auto run = evaluated_run({"books", "c4", "wiki"});
  CHECK(facts_of(run).evaluation.label == "books");  // nothing else is known
  run.summary = {{"evaluation", {{"label", "wiki"}}}};
  CHECK(facts_of(run).evaluation.label == "wiki");
  run.start = {
      {"configuration", {{"eval_loader.0.label", "c4"}, {"eval_loader.1.label", "books"}}}};
  auto const facts = facts_of(run);
  REQUIRE(facts.evaluations.size() == 3);
  CHECK(facts.evaluation.label == "c4");
  CHECK(facts.evaluations[0].label == "c4");
  CHECK(facts.evaluations[1].label == "books");
  CHECK(facts.evaluations[2].label == "wiki");
  CHECK(facts.evaluation.loss->value == 5);
  CHECK(facts.evaluation.loss->batch == 20);
  CHECK(facts.evaluation.lowest_loss->value == 4);
  CHECK(facts.evaluation.accuracy == 0.25);
  CHECK(mpt::report::table_cells(run, facts).back() == "0.2500 (c4)");
}

TEST_CASE("run facts: runs are compared on the first set that all of them have") {
  auto const compare = [](std::vector<std::vector<std::string>> const& labels) {
    std::vector<mpt::report::run_facts> facts;
    for (auto const& sets : labels) facts.push_back(facts_of(evaluated_run(sets)));
    std::vector<mpt::report::run_facts*> pointers;
    for (auto& run : facts) pointers.push_back(&run);
    std::string out = mpt::report::compare_by_common_set(pointers) ? "" : "none:";
    for (auto const& run : facts) out += " " + run.evaluation.label;
    return out;
  };
  CHECK(compare({{"a", "b", "c"}, {"b", "c"}, {"b"}}) == " b b b");
  CHECK(compare({{"a", "b"}, {}, {"b"}}) == " b  b");  // one is not evaluated at all
  CHECK(compare({{"a"}, {"b"}}) == "none: a b");
  CHECK(compare({{""}, {""}}) == "  ");
  CHECK(compare({{}, {}}) == "  ");
}

TEST_CASE("run record: a summary alone has its figures, and says that curves are missing") {
  test::temporary_folder const folder;
  write_all(
      folder / "summary.json",
      R"({"run_name":"old","batches":30,"tokens":900,"mfu":0.25,"wall_clock_seconds":12,"goodput":0.5,
                "device_memory_by_rank":[5,7],"table_row":{"model":"MPT-1B","nodes":2}})");
  auto const run = mpt::report::read_run(folder.path());
  auto const facts = facts_of(run);
  CHECK(*facts.batches == 30);
  CHECK(*facts.goodput == 0.5);
  CHECK(facts.memory_by_rank == std::vector<double>{5, 7});
  CHECK(mpt::report::table_cells(run, facts)[0] == "MPT-1B");
  REQUIRE(run.problems.size() == 1);
  CHECK(run.problems[0].find("set metrics_file=FILE") != std::string::npos);
}

}  // namespace report_run_record_test
