// Options of a run as the whole program has them: profile, callbacks, optimizers, clipping,
// loggers.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>

#include "tiny_run.hpp"

namespace trainer_options_test {
namespace {

using namespace tiny_run;
using test::contains;

/// What `call` prints on standard error.
template <class Call>
std::string said_by(fs::path const& scratch, Call const& call) {
  std::fflush(stderr);
  int const kept = ::dup(STDERR_FILENO);
  int const file = ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(kept >= 0);
  REQUIRE(file >= 0);
  ::dup2(file, STDERR_FILENO);
  std::string problem;
  try {
    call();
  } catch (std::exception const& error) {
    problem = error.what();
  }
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(file);
  ::close(kept);
  REQUIRE(problem == "");
  return test::read_all(scratch);
}

/// The numbers of a profile's row: calls and milliseconds of a step, share in percent.
struct row {
  double calls = 0, ms = 0, share = 0;
};

/// The rows of a profile by "stream operation".
std::map<std::string, row> rows_of(std::string const& said) {
  std::map<std::string, row> out;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string stream;
    std::string name;
    row r;
    if (words >> stream >> name >> r.calls >> r.ms >> r.share) out[stream + " " + name] = r;
  }
  return out;
}

TEST_CASE("a profile has a row for every operation, and a trace of the same tasks") {
  place const here;
  auto config = here.config(6);
  config.profile = true;
  config.checkpoint.save_folder = here.folder / "run";
  auto const said = said_by(here.folder / "said", [&] { (void)train<float>(config, 2); });
  CHECK(contains(said, "stream    operation"));
  CHECK(contains(said, "trace of these 3 batches, for Perfetto or chrome://tracing: " +
                           (here.folder / "run/profile.json").string()));
  auto const rows = rows_of(said);
  // two microbatches, of two sequences and of one, through two layers
  CHECK(rows.at("compute embedding").calls == 2);
  CHECK(rows.at("compute cross_entropy").calls == 2);
  CHECK(rows.at("compute attention").calls == 4);
  CHECK(rows.at("compute attention_backward").calls == 4);
  CHECK(rows.at("compute matmul").calls >= 2 * (2 * 4 + 1) * 3);  // forward, and backward twice
  CHECK(rows.contains("compute adamw"));
  CHECK(rows.contains("traffic all_reduce"));
  CHECK(contains(said, " GF/s"));
  CHECK(contains(said, " GB/s"));

  auto const trace = nlohmann::json::parse(test::read_all(here.folder / "run/profile.json"));
  std::map<std::string, row> traced;
  for (auto const& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    auto& r = traced[(event.at("tid") == 0 ? "compute " : "traffic ") +
                     event.at("name").get<std::string>()];
    r.calls += 1.0 / 3;
    r.ms += event.at("dur").get<double>() / 3000;
    CHECK(event.at("ts").get<double>() >= 0);
  }
  CHECK(traced.size() == rows.size());
  std::map<std::string, double> shares;
  for (auto const& [name, r] : rows) {
    CAPTURE(name);
    REQUIRE(traced.contains(name));
    CHECK(r.calls == doctest::Approx(traced[name].calls).epsilon(1e-3));
    CHECK(std::abs(r.ms - traced[name].ms) < 0.001);
    shares[name.substr(0, 7)] += r.share;
  }
  CHECK(std::abs(shares.at("compute") - 100) < 2);
  CHECK(std::abs(shares.at("traffic") - 100) < 2);
}

TEST_CASE("a run too short for a whole profile gives what it has, or says why there is nothing") {
  place const here;
  auto config = here.config(3);
  config.profile = true;
  config.checkpoint.save_folder = here.folder / "run";
  config.checkpoint.autoresume = true;
  auto const after = [&](double batches) {
    config.max_duration.count = batches;
    return said_by(here.folder / "said", [&] { (void)train<float>(config); });
  };
  auto const none = after(1);
  CHECK(contains(none, "no profile: the first batch"));
  CHECK(contains(none, "no other was trained here"));
  CHECK(!fs::exists(here.folder / "run/profile.json"));
  auto const two = after(4);  // three more, of which two are timed
  CHECK(contains(two, "trace of these 2 batches"));
  CHECK(rows_of(two).at("compute attention").calls == 6);  // three microbatches, two layers
  CHECK(fs::exists(here.folder / "run/profile.json"));
  auto const one = after(6);
  CHECK(contains(one, "trace of this batch"));
  CHECK(rows_of(one).at("compute attention").calls == 6);
  CHECK(contains(after(6),
                 "no profile: the first batch, in which caches fill, is not timed, and "
                 "none was trained here"));
}

TEST_CASE("a run that waits for data says so in the batches that do") {
  place const here;
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int32_t i = 0; i < 24; ++i)  // the fourth batch of an epoch is read for long
    rows.emplace_back(i < 18 ? length : std::int32_t{1} << 21, i % vocabulary);
  test::write_token_set(here.folder / "slow", rows);
  auto config = here.config(12);
  config.train_loader.streams = {{.local = here.folder / "slow"}};
  config.train_loader.shuffle = false;
  config.callbacks.speed_window = 1;
  config.logging.metrics_file = here.folder / "metrics.jsonl";
  config.logging.log_to_console = true;
  mpt::run_summary summary;
  auto const said = said_by(here.folder / "said", [&] { summary = train<float>(config); });
  std::vector<double> share;
  for (auto const& record : records(here.folder / "metrics.jsonl"))
    share.push_back(record.at("time/data_wait_share").get<double>());
  REQUIRE(share.size() == 12);
  for (auto const& s : share) CHECK((s >= 0 && s <= 1));
  std::size_t worst = 3;  // of three such batches: a busy machine may give one the time to be read
  for (std::size_t const b : {7U, 11U})
    if (share[b] > share[worst]) worst = b;
  CHECK(share[worst] > 0.2);
  CHECK(std::min({share[4], share[5], share[6], share[8], share[9], share[10]}) <
        0.5 * share[worst]);  // what was waited before is forgotten
  CHECK(summary.data_wait_share > 0.02);
  auto const line = said.substr(said.find(fmt::format("{}/12 ba", worst + 1)));
  CHECK(contains(line.substr(0, line.find('\n')),
                 fmt::format("waits {:.0f} % for data (", 100 * share[worst])));
}

}  // namespace
}  // namespace trainer_options_test
