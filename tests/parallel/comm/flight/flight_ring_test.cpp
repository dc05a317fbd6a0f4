#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/flight/flight_report.hpp>
#include <parallel/comm/flight/flight_ring.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/support/files.hpp>

namespace flight_ring_test {

using namespace parallel;

TEST_CASE("flight ring: the file holds the records of a killed process") {
  test::temporary_folder const folder;
  auto const path = flight_file(folder.path(), 2);
  CHECK(path.filename() == "flight-rank2.ring");
  auto const child = ::fork();
  if (child == 0) {
    flight_recorder recorder(flight_ring(path, 2, 4, 8));
    for (std::uint64_t i = 0; i < 21; ++i) {
      signature const call_signature{.kind = operation_kind::all_reduce, .line = 31, .count = i};
      auto const call = recorder.record_enqueued(call_signature, 4 * i, 5);
      recorder.set_state(call.number, call_state::running);
      if (i < 20) recorder.set_state(call.number, call_state::completed);
    }
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  auto const log = read_flight(path);
  CHECK(log.rank == 2);
  CHECK(log.ranks == 4);
  CHECK(log.process == child);
  CHECK(!log.machine.empty());
  REQUIRE(log.calls.size() == 8);
  for (std::uint64_t i = 0; i < 8; ++i) {
    CHECK(log.calls[i].number == 13 + i);
    CHECK(log.calls[i].call_signature.count == 13 + i);
    CHECK(log.calls[i].call_signature.sequence == 13 + i);
    CHECK(log.calls[i].group == 5);
    CHECK(log.calls[i].state == (i < 7 ? call_state::completed : call_state::running));
  }
}

TEST_CASE("flight ring: a file and memory give the same text, and the file is removed on demand") {
  test::temporary_folder const folder;
  flight_recorder in_file(flight_ring(flight_file(folder.path(), 0), 0, 1, 3));
  flight_recorder in_memory(3);
  for (auto* const recorder : {&in_file, &in_memory})
    for (std::uint64_t i = 0; i < 5; ++i)
      recorder->record_enqueued({.kind = operation_kind::send, .peer = 1, .count = i}, 0);
  CHECK(in_file.calls().size() == 3);
  CHECK(in_file.text() == in_memory.text());
  in_file.ring().remove_file();
  CHECK(std::filesystem::is_empty(folder.path()));
  in_file.record_enqueued({.kind = operation_kind::barrier},
                          0);  // the recorder continues without a file
  CHECK(in_file.calls().back().call_signature.kind == operation_kind::barrier);
}

TEST_CASE("flight ring: a recorder that moves into a file takes its records along") {
  test::temporary_folder const folder;
  auto const path = flight_file(folder.path(), 1);
  flight_recorder recorder(4);
  recorder.join_group(9);
  for (std::uint64_t i = 0; i < 6; ++i)
    recorder.record_enqueued({.kind = operation_kind::all_gather, .count = i}, 0, 9);
  recorder.move_to(flight_ring(path, 1, 2, 8));
  recorder.set_state(5, call_state::running);
  recorder.record_enqueued({.kind = operation_kind::barrier}, 0, 9);
  recorder.join_group(11);
  auto const log = read_flight(path);
  CHECK(log.groups == std::vector<std::uint64_t>{9, 11});
  REQUIRE(log.calls.size() == 5);
  CHECK(recorder.calls().size() == 5);
  CHECK(log.calls.front().number == 2);
  CHECK(log.calls[3].state == call_state::running);
  CHECK(log.calls.back().call_signature.sequence == 6);
}

TEST_CASE("flight ring: a new run's file replaces an old one that is still written to") {
  test::temporary_folder const folder;
  auto const path = flight_file(folder.path(), 0);
  flight_recorder old_recorder(flight_ring(path, 0, 2, 4));
  flight_recorder new_recorder(flight_ring(path, 0, 3, 4));
  old_recorder.record_enqueued({.kind = operation_kind::barrier}, 0);
  CHECK(read_flight(path).ranks == 3);
  CHECK(read_flight(path).calls.empty());
}

TEST_CASE("flight ring: partly written and damaged records are left out") {
  test::temporary_folder const folder;
  auto const path = flight_file(folder.path(), 0);
  {
    flight_recorder recorder(flight_ring(path, 0, 1, 4));
    for (int i = 0; i < 4; ++i) recorder.record_enqueued({.kind = operation_kind::barrier}, 0);
  }
  auto const whole = test::read_all(path);
  auto const write_changed = [&](std::size_t offset, char value) {
    auto content = whole;
    content[offset] = value;
    test::write_all(path, content);
  };
  auto const slot = [](std::size_t i) { return sizeof(flight_header) + i * sizeof(flight_call); };
  write_changed(slot(1), '\x07');  // another call's number
  CHECK(read_flight(path).calls.size() == 3);
  write_changed(slot(2) + offsetof(flight_call, state), '\x07');
  CHECK(read_flight(path).calls.size() == 3);
  write_changed(slot(2) + offsetof(flight_call, call_signature), '\x70');
  CHECK(read_flight(path).calls.size() == 3);
  auto const refusal = [&] { return test::message_of([&] { (void)read_flight(path); }); };
  write_changed(0, 'X');
  CHECK(test::contains(refusal(), "is no flight recorder's"));
  write_changed(8, '\x01');
  CHECK(test::contains(refusal(), "another version"));
  write_changed(offsetof(flight_header, capacity) + 7, '\x7f');
  CHECK(test::contains(refusal(), "its header is damaged"));
  test::write_all(path, whole.substr(0, whole.size() - 1));
  CHECK(test::contains(refusal(), "is cut short"));
  CHECK(test::contains(test::message_of([&] { flight_ring(folder / "no/file", 0, 1); }),
                       "cannot create"));
}

TEST_CASE("flight ring: only rings of ranks beyond the run are removed") {
  test::temporary_folder const folder;
  for (auto const* const name : {"flight-rank0.ring", "flight-rank2.ring", "flight-rank10.ring",
                                 "flight-rank3.txt", "flight-rankx.ring", "flight-rank4x.ring"})
    test::write_all(folder / name, "x");
  remove_flight_files(folder.path(), 2);
  std::set<std::string> remaining;
  for (auto const& entry : std::filesystem::directory_iterator(folder.path()))
    remaining.insert(entry.path().filename());
  CHECK(remaining == std::set<std::string>{"flight-rank0.ring", "flight-rank3.txt",
                                           "flight-rankx.ring", "flight-rank4x.ring"});
  remove_flight_files(folder / "nowhere", 0);
}

}  // namespace flight_ring_test
