// Environment variables of the ranks that `launch` starts, besides torchrun's.
#pragma once

namespace apps::launch_environment {

/// The folder in which the ranks meet. Its name consists of the run's name and generation, and is
/// part of every seal.
inline constexpr char const* rendezvous = "PARALLELLM_RENDEZVOUS";
/// The file with the run's key.
inline constexpr char const* key = "PARALLELLM_KEY";
/// The network interface that ranks listen on.
inline constexpr char const* interface = "PARALLELLM_INTERFACE";
/// The folder in which ranks of torchrun or srun meet, set by the user; default: in save_folder.
inline constexpr char const* meeting = "PARALLELLM_MEETING";
/// The number of restarts of the program.
inline constexpr char const* generation = "PARALLELLM_GENERATION";

}  // namespace apps::launch_environment
