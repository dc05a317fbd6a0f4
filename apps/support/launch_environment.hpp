// What program `launch` tells the ranks that it starts, besides torchrun's variables.
#pragma once

namespace apps::launch_environment {

/// The folder in which the ranks meet. Its name is that of the run and of its generation, and it is
/// part of every seal.
inline constexpr char const* rendezvous = "PARALLELLM_RENDEZVOUS";
/// The file with the run's key.
inline constexpr char const* key = "PARALLELLM_KEY";
/// The network interface that ranks listen on.
inline constexpr char const* interface = "PARALLELLM_INTERFACE";
/// Where ranks of torchrun or srun meet, if it is not in the run's save_folder: given by the user.
inline constexpr char const* meeting = "PARALLELLM_MEETING";
/// How often the program was started again.
inline constexpr char const* generation = "PARALLELLM_GENERATION";

}  // namespace apps::launch_environment
