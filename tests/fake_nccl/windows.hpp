// The fake NCCL's windows, which exist when all ranks have asked for them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_nccl/library.hpp"

namespace fake_nccl {

/// Makes the window that the communicator has asked for, when all ranks have asked.
inline ncclResult_t complete_window(library& l, ncclComm& comm) {
  auto const ranks = static_cast<std::size_t>(comm.clique->size);
  auto const number = comm.pending_window->memory.window;
  std::vector<std::size_t> bytes;
  if (!l.board) bytes = comm.clique->windows[number];
  for (std::size_t rank = 0; l.board && rank < ranks; ++rank) {
    auto const post = concat(comm.clique->name, ".window", number, ".rank", rank);
    if (!l.board->contains(post)) return ncclInProgress;
    bytes.push_back(std::stoull(l.board->read(post)));
  }
  if (bytes.size() < ranks) return ncclInProgress;
  auto const completed = *std::exchange(comm.pending_window, std::nullopt);
  for (std::size_t const one : bytes)
    if (one != bytes.front())
      return l.refuse(concat("ranks of communicator ", comm.clique->number, " disagree: window ",
                             number, " has ", bytes.front(), " bytes and ", one));
  auto* const handle = reinterpret_cast<void*>(++l.next_registration);
  comm.registered[handle] = completed.memory;
  *completed.out = static_cast<ncclWindow_t>(handle);
  ++l.history.registered;
  return ncclSuccess;
}

}  // namespace fake_nccl
