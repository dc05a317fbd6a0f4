// Captures the text that a call prints on standard error.
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

/// Calls `call` and returns the text that it prints on standard error, which goes to the file
/// `scratch` meanwhile.
template <class Call>
std::string captured_stderr(std::filesystem::path const& scratch, Call const& call) {
  std::fflush(stderr);
  int const saved_descriptor = ::dup(STDERR_FILENO);
  int const file = ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(saved_descriptor >= 0);
  REQUIRE(file >= 0);
  ::dup2(file, STDERR_FILENO);
  std::string problem;
  try {
    call();
  } catch (std::exception const& error) {
    problem = error.what();
  }
  std::fflush(stderr);
  ::dup2(saved_descriptor, STDERR_FILENO);
  ::close(file);
  ::close(saved_descriptor);
  REQUIRE(problem == "");
  return test::read_all(scratch);
}

}  // namespace test
