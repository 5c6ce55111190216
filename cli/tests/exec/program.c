/* A CUDA program that does not use gpu-leak-check, in another language than Rust. Its first argument
   selects what it does. The tests find the lines of its leaks by their comments. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t ptr;
static void *library;

static void *function(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) { fprintf(stderr, "no %s\n", name); _exit(70); }
    return found;
}

#define CALL(name, types, ...) \
    do { \
        int error = ((int (*) types)function(#name))(__VA_ARGS__); \
        if (error) { fprintf(stderr, #name ": %d\n", error); _exit(71); } \
    } while (0)

static void begin(void)
{
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); _exit(72); }
    void *context;
    CALL(cuInit, (unsigned), 0);
    CALL(cuInit, (unsigned), 0); /* Each library that uses the driver initialises it. */
    CALL(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    CALL(cuCtxSetCurrent, (void *), context);
}

static ptr take(size_t bytes)
{
    ptr address = 0;
    CALL(cuMemAlloc_v2, (ptr *, size_t), &address, bytes); /* allocated here */
    return address;
}

static void give_back(ptr address)
{
    CALL(cuMemFree_v2, (ptr), address);
}

static void one_of_each(void)
{
    ptr address, pitch;
    void *handle;
    take(4096);
    CALL(cuMemAllocPitch_v2, (ptr *, size_t *, size_t, size_t, unsigned), &address, &pitch, 512, 8, 4);
    CALL(cuMemAllocManaged, (ptr *, size_t, unsigned), &address, 8192, 1);
    CALL(cuMemHostAlloc, (void **, size_t, unsigned), &handle, 1024, 0);
    CALL(cuMemAllocAsync, (ptr *, size_t, void *), &address, 2048, NULL);
    CALL(cuStreamCreate, (void **, unsigned), &handle, 0);
    CALL(cuEventCreate, (void **, unsigned), &handle, 0);
    CALL(cuGraphCreate, (void **, unsigned), &handle, 0);
}

static void hundred_rounds(void)
{
    for (int round = 0; round < 100; round++) {
        void *stream;
        ptr address = take(4096);
        CALL(cuStreamCreate, (void **, unsigned), &stream, 0);
        CALL(cuStreamDestroy_v2, (void *), stream);
        give_back(address);
    }
}

static ptr kept;

/* Like the destructor of a static, this does not know whether the driver is still there. */
static void at_the_end(void)
{
    ((int (*)(ptr))function("cuMemFree_v2"))(kept);
}

static void context_of_this_thread(void **context)
{
    CALL(cuCtxGetCurrent, (void **), context);
}

/* A kernel fails, and the code after it ignores the errors, as many programs do. */
static void breaks_its_context(int resets)
{
    ptr address = take(4096), other = take(8192), refused;
    void *stream, *context;
    CALL(cuStreamCreate, (void **, unsigned), &stream, 0);
    context_of_this_thread(&context);
    CALL(fake_cuda_poison, (void *), context);
    ((int (*)(ptr *, size_t))function("cuMemAlloc_v2"))(&refused, 512); /* refused first */
    ((int (*)(ptr))function("cuMemFree_v2"))(address);
    ((int (*)(ptr))function("cuMemFree_v2"))(other);
    ((int (*)(void *))function("cuStreamDestroy_v2"))(stream);
    if (resets) ((int (*)(int))function("cuDevicePrimaryCtxReset_v2"))(0);
}

/* Calls of different depth are different call sites, even if only frames of CUDA's libraries differ. */
static int nested(int depth, int (*keeps)(void *))
{
    return depth ? nested(depth - 1, keeps) : keeps(library);
}

/* The inode of this process's newest snapshot; 0 while there is none. */
static ino_t snapshot(void)
{
    char path[4096], number[32];
    snprintf(number, sizeof number, "-%d.snapshot", getpid());
    snprintf(path, sizeof path, "%s/%s", getenv("GPU_LEAK_CHECK_OUTPUT"), getenv("GPU_LEAK_CHECK_RUN"));
    ino_t found = 0;
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strstr(entry->d_name, number))
            found = entry->d_ino;
    if (directory) closedir(directory);
    return found;
}

static void wait_for_another(ino_t before)
{
    while (snapshot() == before || !snapshot())
        usleep(1000);
}

static void wait_for_a_snapshot(void)
{
    wait_for_another(snapshot());
}

static int (*initialise)(unsigned);
static volatile pid_t other_thread;
static volatile int may_go_on, has_returned;

static void *makes_the_first_call(void *argument)
{
    other_thread = gettid();
    while (!may_go_on) ;
    initialise(0);
    has_returned = 1;
    return argument;
}

/* Whether a thread sleeps, as it does while it waits for a lock. */
static int sleeps(pid_t thread)
{
    char path[64], name[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d %63s %c", name, &state) != 2) state = 0;
    if (file) fclose(file);
    return state == 'S';
}

/* Calls the driver once another thread is inside its own first call, or has returned from it. */
void in_constructor(void)
{
    may_go_on = 1;
    while (!has_returned && !sleeps(other_thread)) ;
    initialise(0);
}

static int calls_from_a_constructor(const char *path)
{
    pthread_t thread;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    initialise = (int (*)(unsigned))function("cuInit");
    alarm(60);
    if (pthread_create(&thread, NULL, makes_the_first_call, NULL)) return 77;
    while (!other_thread) ;
    if (!dlopen(path, RTLD_NOW)) { fprintf(stderr, "%s\n", dlerror()); return 78; }
    return pthread_join(thread, NULL);
}

static volatile int is_cancelled;

/* Makes its calls while its cancellation is pending. */
static void *works_until_cancelled(void *argument)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    may_go_on = 1;
    while (!is_cancelled) ;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    begin();
    give_back(take(4096));
    pthread_testcancel();
    return argument;
}

static int cancels_a_thread(void)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, works_until_cancelled, NULL)) return 77;
    while (!may_go_on) ;
    pthread_cancel(thread);
    is_cancelled = 1;
    return pthread_join(thread, &result) || result != PTHREAD_CANCELED;
}

/* The memory that is not mapped from a file, in KiB. */
static long anonymous(void)
{
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "RssAnon: %ld", &found);
    if (file) fclose(file);
    return found;
}

static void *outlives_main(void *context)
{
    usleep(50000);
    CALL(cuCtxSetCurrent, (void *), context);
    take(4096);
    return NULL;
}

static void *begins_after_main(void *argument)
{
    usleep(50000);
    begin();
    take(4096);
    return argument;
}

static void (*earlier_handler)(int);

/* Then calls the handler that was installed before, as if it had one parameter. */
static void chaining_handler(int signal)
{
    if (earlier_handler != SIG_DFL && earlier_handler != SIG_IGN)
        ((void (*)(int, intptr_t))earlier_handler)(signal, 1); /* Anything may be in the second register. */
}

static void own_handler(int signal)
{
    (void)signal;
    exit(7);
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    int is(const char *name) { return !strcmp(what, name); }

    if (is("nothing")) return 0;
    if (is("fails")) return 5;
    if (is("asks-for-a-driver")) {
        puts(dlsym(RTLD_DEFAULT, "cuInit") ? "a driver" : "no driver");
        return 0;
    }
    if (is("prints-switches")) {
        const char *names[] = { "PYTORCH_NO_CUDA_MEMORY_CACHING", "XLA_PYTHON_CLIENT_ALLOCATOR",
                                "XLA_PYTHON_CLIENT_PREALLOCATE" };
        for (int each = 0; each < 3; each++)
            printf("%s=%s\n", names[each], getenv(names[each]) ? getenv(names[each]) : "");
        fflush(stdout);
        begin();
        take(4096);
        return 0;
    }
    if (is("starts-another")) {
        pid_t child = fork();
        if (!child) execl(words[0], words[0], "one", (char *)NULL);
        int status;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (is("does-without")) {
        library = dlopen("libcuda.so.1", RTLD_NOW);
        if (((int (*)(unsigned))function("cuInit"))(0)) puts("no device");
        if (count > 2 && setenv("FAKE_CUDA_DEVICES", "1", 1)) return 77;
        return count > 2 ? system(words[2]) : 0;
    }
    if (is("calls-from-a-constructor")) return calls_from_a_constructor(words[2]);
    if (is("cancels-a-thread")) return cancels_a_thread();
    if (is("main-ends-before-the-driver-begins")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, begins_after_main, NULL)) return 77;
        pthread_exit(NULL);
    }
    if (is("opens-no-more-files")) {
        struct rlimit limit = { 3, 3 };
        library = dlopen("libcuda.so.1", RTLD_NOW);
        if (setrlimit(RLIMIT_NOFILE, &limit)) return 78;
        return ((int (*)(unsigned))function("cuInit"))(0);
    }
    if (is("gives-back-last")) atexit(at_the_end);
    if (is("changes-its-directory") && chdir("/")) return 79;
    begin();
    if (is("one") || is("changes-its-directory")) take(4096);
    else if (is("one-and-fails")) { take(4096); return 5; }
    else if (is("each")) one_of_each();
    else if (is("cublas")) {
        void *cublas = dlopen("libcublas.so.13", RTLD_NOW);
        ptr handle;
        if (!cublas || ((int (*)(ptr *))dlsym(cublas, "cublasCreate_v2"))(&handle)) return 73;
    }
    else if (is("breaks")) breaks_its_context(0);
    else if (is("breaks-and-resets")) breaks_its_context(1);
    else if (!strncmp(words[1], "libraries", 9)) {
        int flags = strstr(words[1], "-with-their-own-symbols-first") ? RTLD_NOW | RTLD_DEEPBIND : RTLD_NOW;
        for (int word = 2; word + 1 < count; word += 2) {
            void *other = dlopen(words[word], flags);
            if (!other) { fprintf(stderr, "%s\n", dlerror()); return 75; }
            int closes = strstr(words[1], "-closed") != NULL;
            if (nested(closes ? 0 : word, (int (*)(void *))dlsym(other, words[word + 1]))) return 76;
            if (closes && dlclose(other)) return 78;
        }
    }
    else if (is("opens")) {
        long before = anonymous();
        for (int word = 2; word < count; word++) {
            void *other = dlopen(words[word], RTLD_NOW);
            if (!other) { fprintf(stderr, "%s\n", dlerror()); return 75; }
            if (((int (*)(void *))dlsym(other, "creates"))(library)) return 76;
        }
        printf("%ld\n", anonymous() - before);
    }
    else if (is("clean")) hundred_rounds();
    else if (is("word")) return !(count > 2 && (unsigned char)words[2][0] == 0xff && !words[2][1]);
    else if (is("gives-back-last")) kept = take(4096);
    else if (is("resets")) {
        take(4096);
        CALL(cuDevicePrimaryCtxReset_v2, (int), 0);
    } else if (is("forks")) {
        ptr address = take(4096);
        pid_t child = fork();
        if (!child) exit(0);
        waitpid(child, NULL, 0);
        give_back(address);
    } else if (is("copies-itself")) {
        ptr address = take(4096);
        pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0); /* without fork handlers */
        if (!child) exit(0);
        waitpid(child, NULL, 0);
        give_back(address);
    } else if (is("leaves-at-once")) { take(4096); _exit(0); }
    else if (is("killed")) {
        take(4096);
        wait_for_a_snapshot();
        kill(getpid(), SIGKILL);
    } else if (is("terminated")) {
        take(4096);
        kill(getpid(), SIGTERM);
        pause();
    } else if (is("raises")) {
        take(4096);
        raise(SIGTERM);
        return 9; /* The program must not run on after the signal. */
    } else if (is("main-ends-first")) {
        void *context;
        pthread_t thread;
        context_of_this_thread(&context);
        if (pthread_create(&thread, NULL, outlives_main, context)) return 77;
        pthread_exit(NULL);
    } else if (is("drops-its-privileges")) {
        ptr address = take(4096);
        if (setuid(65534)) return 78;
        give_back(address);
    } else if (is("hung-up")) {
        int ends[2];
        take(4096);
        if (pipe(ends) || close(ends[0]) || dup2(ends[1], 2) != 2) return 74;
        kill(getpid(), SIGHUP);
        pause();
    } else if (is("handles-it")) {
        signal(SIGTERM, own_handler);
        kill(getpid(), SIGTERM);
        pause();
    } else if (is("chains-handlers")) {
        ptr address = take(4096);
        earlier_handler = signal(SIGTERM, chaining_handler);
        raise(SIGTERM);
        usleep(100000); /* A thread of the harness must not end the program either. */
        give_back(address);
        return 7;
    } else if (is("is-replaced")) {
        take(4096);
        if (rename(words[2], words[0])) return 79;
    } else if (is("asked")) {
        ptr address = take(4096);
        ino_t before = snapshot();
        kill(getpid(), SIGUSR1);
        wait_for_another(before);
        give_back(address);
    } else if (is("grows")) {
        for (int round = 0; round < 7; round++) {
            take(4096);
            wait_for_a_snapshot();
        }
    } else if (is("closes-everything")) {
        for (int file = 3; file < 256; file++) close(file);
        take(4096);
    } else return 64;
    return 0;
}
