#!/usr/bin/env perl
# A policy over Trainwreck's protocol for policies (docs/rescue.md): once the loss is 1.5 times the least so far, or not
# finite, back by 50 steps, then half of the rate; once in an episode. Needs nothing but Perl itself:
#
#     trainwreck rescue sample --policy "cmd:perl docs/examples/back_and_lower.pl"

use strict;
use warnings;
use JSON::PP;

$| = 1;    # an answer that stays in a buffer is an answer that never came

my $json = JSON::PP->new->canonical;
my $least;
my @plan = ('roll_back=50', 'rate=0.5');
my $begun = 0;

while (my $line = <STDIN>) {
    my $message = $json->decode($line);
    my $type = $message->{type};
    my $answer;
    if ($type eq 'hello') {
        die "protocol version $message->{version}, not 1\n" if $message->{version} != 1;
        $answer = { type => 'hello', version => 1, signals => ['loss'] };
    } elsif ($type eq 'reset') {
        $answer = { type => 'ready' };
    } elsif ($type eq 'observation') {
        $begun ||= risen($_->{loss}) for @{ $message->{rows} };
        my $action = $begun && @plan ? shift @plan : 'continue';
        $answer = { type => 'action', step => $message->{step}, action => $action };
    } elsif ($type eq 'end') {
        $answer = { type => 'ended' };
    } else {
        die "a message of type $type\n";
    }
    print $json->encode($answer), "\n";
}

# Whether a loss is far above the least so far: null where it was not logged, a string where it is no number.
sub risen {
    my ($loss) = @_;
    return 0 if !defined $loss;
    return 1 if $loss =~ /NaN|Infinity/;
    $least = $loss if !defined $least || $loss < $least;
    return $loss > 1.5 * $least;
}
