// The fake NCCL's windows, which are there when all ranks have asked for them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_nccl/library.hpp"

namespace fake_nccl {

/// Gives the communicator the window that it has asked for, when all ranks have.
inline ncclResult_t complete_window(library& l, ncclComm& comm) {
  auto const ranks = static_cast<std::size_t>(comm.of->size);
  auto const number = comm.asked->what.window;
  std::vector<std::size_t> bytes;
  if (!l.board) bytes = comm.of->windows[number];
  for (std::size_t rank = 0; l.board && rank < ranks; ++rank) {
    auto const post = concat(comm.of->name, ".window", number, ".rank", rank);
    if (!l.board->has(post)) return ncclInProgress;
    bytes.push_back(std::stoull(l.board->read(post)));
  }
  if (bytes.size() < ranks) return ncclInProgress;
  auto const asked = *std::exchange(comm.asked, std::nullopt);
  for (std::size_t const one : bytes)
    if (one != bytes.front())
      return l.refuse(concat("ranks of communicator ", comm.of->number, " disagree: window ",
                             number, " has ", bytes.front(), " bytes and ", one));
  auto* const handle = reinterpret_cast<void*>(++l.next_registration);
  comm.registered[handle] = asked.what;
  *asked.out = static_cast<ncclWindow_t>(handle);
  ++l.happened.registered;
  return ncclSuccess;
}

}  // namespace fake_nccl
