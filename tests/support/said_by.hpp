// What a program prints on standard error while it is called.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "parallel/support/files.hpp"

namespace test {

/// What `call` prints on standard error.
template <class Call>
std::string said_by(std::filesystem::path const& scratch, Call const& call) {
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

}  // namespace test
