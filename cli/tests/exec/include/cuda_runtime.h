// Like CUDA's header of this name, defines functions that are inlined into those of the program.
inline void createEvent(void **event) { cuEventCreate(event, 0); }
