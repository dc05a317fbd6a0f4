// host_access_watch: says why a pass crashes that reads or writes elements itself, where the meta
// device has given it views of no memory.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include <parallel/core/config.hpp>

namespace parallel::meta {

/// While one lives, a segmentation fault of its thread prints a sentence and ends the process. A
/// fault of another thread does what it did without this class.
class host_access_watch {
 public:
  host_access_watch() : is_outermost_(!is_watched_) {
    is_watched_ = true;
    static bool const is_installed = install();
    static_cast<void>(is_installed);
  }
  host_access_watch(host_access_watch&&) = delete;
  ~host_access_watch() {
    if (is_outermost_) is_watched_ = false;
  }

 private:
  static bool install() {
    struct sigaction action {};
    action.sa_sigaction = &report;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, &earlier_action_) == 0;
  }
  // The handler stays, and prints nothing for threads that are not watched.
  static void report(int number, siginfo_t* cause, void*) {
    constexpr std::string_view text =
        "error: a pass of the model reads or writes elements itself while it is planned, when "
        "there "
        "are no elements; read and write them in operations alone, such as one of ops::custom\n";
    if (is_watched_) {
      if (::write(STDERR_FILENO, text.data(), text.size()) < 0) ::_exit(1);
      ::signal(SIGSEGV, SIG_DFL);  // no other handler adds another reason
    } else {
      ::sigaction(SIGSEGV, &earlier_action_, nullptr);
    }
    bool const comes_again = cause->si_code > 0;  // from an instruction, not from a process
    if (!comes_again) static_cast<void>(::raise(number));
  }

  static inline struct sigaction earlier_action_ {};
  static inline thread_local bool is_watched_ = false;
  bool is_outermost_;
};

}  // namespace parallel::meta
